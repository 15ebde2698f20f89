// Tables: sorted by a heading, searched, and cut at some rows until all are asked for.

const FIRST_ROWS = 25;
// A table this short is seen at a glance and needs no search.
const SEARCHED_ROWS = 8;
const collator = new Intl.Collator("en", { numeric: true });

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// What a row is sorted by: numbers stand before texts, and nothing stands last.
function sortKey(cell) {
  if (cell.dataset.value !== undefined) return [0, Number(cell.dataset.value)];
  return cell.textContent === "–" ? [2, ""] : [1, cell.textContent];
}

function compareKeys([kind, value], [otherKind, other], direction) {
  if (kind === 2 || otherKind === 2) return kind - otherKind;
  if (kind !== otherKind) return direction * (kind - otherKind);
  return direction * (kind === 0 ? value - other : collator.compare(value, other));
}

function makeTable(block) {
  const table = block.querySelector("table");
  const body = table.tBodies[0];
  const rows = [...body.rows].filter((row) => !row.cells[0]?.hasAttribute("colspan"));
  const headings = [...[...table.tHead.rows].at(-1).cells];
  const state = { column: -1, direction: 1, wanted: [], all: rows.length <= FIRST_ROWS };
  let order = rows;
  let texts = null;
  const count = element("p", { class: "count", "aria-live": "polite" });
  const more = element("button", { type: "button", class: "more" });

  function show() {
    const found = order.filter((row) => isFound(row));
    const shown = state.all ? found : found.slice(0, FIRST_ROWS);
    const visible = new Set(shown);
    for (const row of rows) row.hidden = !visible.has(row);
    body.append(...order);
    const name = (number) => number.toLocaleString("en");
    more.hidden = shown.length === found.length;
    more.textContent = `Show all ${name(found.length)} rows`;
    const isWhole = shown.length === rows.length;
    count.textContent = isWhole ? "" : `${name(shown.length)} of ${name(rows.length)} rows`;
  }

  function isFound(row) {
    if (!state.wanted.length) return true;
    texts ??= new Map(rows.map((each) => [each, rowText(each)]));
    return state.wanted.every((word) => texts.get(row).includes(word));
  }

  function sortBy(column) {
    if (state.column !== column) Object.assign(state, { column, direction: 1 });
    else if (state.direction === 1) state.direction = -1;
    else Object.assign(state, { column: -1, direction: 1 });
    const keys = new Map();
    if (state.column >= 0) for (const row of rows) keys.set(row, sortKey(row.cells[column]));
    const compare = (row, other) => compareKeys(keys.get(row), keys.get(other), state.direction);
    order = state.column >= 0 ? rows.toSorted(compare) : rows;
    headings.forEach((heading, place) => {
      const isSorted = place === state.column;
      const name = state.direction === 1 ? "ascending" : "descending";
      if (isSorted) heading.setAttribute("aria-sort", name);
      else heading.removeAttribute("aria-sort");
    });
    show();
  }

  if (rows.length > 1) {
    headings.forEach((heading, column) => {
      const button = element("button", { type: "button" }, heading.textContent);
      button.addEventListener("click", () => sortBy(column));
      heading.replaceChildren(button);
    });
  }
  more.addEventListener("click", () => {
    state.all = true;
    show();
  });
  if (rows.length > SEARCHED_ROWS) {
    const title = table.caption.querySelector(".title").textContent;
    const input = element("input", {
      type: "search", placeholder: "Search", "aria-label": `Search in ${title}`,
    });
    input.addEventListener("input", () => {
      state.wanted = normal(input.value).split(/\s+/u).filter(Boolean);
      show();
    });
    table.caption.append(element("span", { class: "tools" }, input));
  }
  block.querySelector(".rest").prepend(count, more);
  block.classList.add("ready");
  show();
}

function normal(text) {
  return text.normalize("NFC").toLowerCase();
}

function rowText(row) {
  return normal([...row.cells].map((cell) => cell.textContent).join("\n"));
}

// The values of a figure as a table, made when somebody opens it.

const VALUE_ROWS = {
  points(data) {
    const hasGroups = data.groups.length > 0;
    const columns = ["label", data.x_label || "x", data.y_label || "y"];
    const rows = data.labels.map((label, place) => {
      const row = [label, data.x[place], data.y[place]];
      return hasGroups ? [...row, data.groups[place]] : row;
    });
    return [hasGroups ? [...columns, "group"] : columns, rows];
  },
  matrix(data) {
    const rows = data.row_labels.map((label, place) => [label, ...data.values[place]]);
    return [["", ...data.column_labels], rows];
  },
  lines(data) {
    const hasSpread = data.series.some((series) => series.spread.length);
    const columns = ["series", data.x_label || "x", data.y_label || "y"];
    const rows = data.series.flatMap((series) => series.x.map((x, place) => {
      const row = [series.name, x, series.y[place]];
      return hasSpread ? [...row, series.spread[place] ?? null] : row;
    }));
    return [hasSpread ? [...columns, "±"] : columns, rows];
  },
  intervals(data) {
    const hasEnds = data.series.some((series) => series.low.length);
    const rows = data.series.flatMap((series) => data.rows.map((name, place) => {
      const row = [series.name, name, series.values[place]];
      return hasEnds ? [...row, series.low[place] ?? null, series.high[place] ?? null] : row;
    }));
    const columns = ["series", "name", data.x_label];
    return [hasEnds ? [...columns, "low", "high"] : columns, rows];
  },
  pyramid(data) {
    const rows = data.levels.flatMap((units, level) => units.map((shares, place) => (
      [level + 1, data.words.slice(place, place + level + 2).join(" "), ...shares])));
    return [["level", "words", "new", "left", "right"], rows];
  },
};

function makeValues(figure, data) {
  const [columns, rows] = VALUE_ROWS[data.kind](data);
  const isNumber = columns.map((_, column) => (
    rows.some((row) => typeof row[column] === "number")
    && rows.every((row) => row[column] === null || typeof row[column] === "number")));
  const kind = (column) => (isNumber[column] ? { class: "number" } : { dir: "auto" });
  const cells = (row) => row.map((value, column) => {
    const cell = element("td", kind(column), value === null ? "–" : shortNumber(value));
    if (typeof value === "number") cell.dataset.value = value;
    return cell;
  });
  const heads = columns.map((name, column) => (
    element("th", { scope: "col", ...kind(column) }, name)));
  const title = element("span", { class: "title" }, `Values of ${data.title}`);
  const table = element(
    "table", {},
    element("caption", { class: "unseen" }, title),
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row)))),
  );
  const scroll = element(
    "div", { class: "scroll", role: "region", tabindex: "0", "aria-label": title.textContent }, table,
  );
  const block = element("div", { class: "table" }, scroll, element("div", { class: "rest" }));
  figure.querySelector("details.values").append(block);
  makeTable(block);
}

function shortNumber(value) {
  if (typeof value !== "number") return value;
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}
