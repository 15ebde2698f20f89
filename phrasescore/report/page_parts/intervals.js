// Estimates with intervals, one row below the other: a dot and a whisker for each value, or a bar.

const ROW_HEIGHT = 30;
const SERIES_HEIGHT = 15; // pixels for each of several values in a row
const NUMBERS_FROM = 560; // pixels: narrower figures show the numbers only on hover

// About `count` ticks at multiples of 1, 2 or 5 times a power of ten, and the decimals they need.
function niceTicks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  const ticks = Array.from({ length: last - first + 1 }, (_, place) => (first + place) * step);
  return { ticks, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function fixedNumber(value, decimals, isSigned) {
  const rounded = Number(value.toFixed(decimals));
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  const sign = rounded < 0 ? "−" : isSigned && rounded > 0 ? "+" : "";
  return `${sign}${Math.abs(rounded).toLocaleString("en", digits)}`;
}

function intervalRange({ series, signed, bars }) {
  const known = series.flatMap(({ values, low, high }) => [...values, ...low, ...high]);
  const [low, high] = extent([...known.filter((value) => value !== null), ...(signed || bars ? [0] : [])]);
  return bars && !known.some((value) => value < 0) ? [0, high] : [low, high];
}

// The value of a row with its interval, as text.
function intervalText({ signed }, { values, low, high }, row, decimals) {
  if (values[row] === null) return "–";
  const text = (value) => fixedNumber(value, decimals, signed);
  const hasEnds = (low[row] ?? null) !== null && (high[row] ?? null) !== null;
  return hasEnds ? `${text(values[row])} [${text(low[row])}, ${text(high[row])}]` : text(values[row]);
}

function drawIntervals(figure, theme, width) {
  const { data, drawing } = figure;
  const { rows, series } = data;
  if (series.length > 1) {
    const marks = series.map((_, index) => (data.bars ? "■" : GLYPHS[index % GLYPHS.length]));
    makeLegend(figure, series.map(({ name }) => name), marks, () => draw(figure));
  }
  const [low, high] = intervalRange(data);
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(high - low)));
  const names = rows.map((name) => cut(name.replaceAll(/\s+/gu, " "), Math.max(10, Math.floor(width / 24))));
  const numbers = rows.map((_, row) => (
    series.length > 1 || width < NUMBERS_FROM ? "" : intervalText(data, series[0], row, decimals)));
  const widest = (texts) => Math.max(0, ...texts.map((text) => textWidth(text, theme)));
  const left = widest(names) + 16;
  const right = widest(numbers) + 20;
  const room = Math.max(100, width - left - right);
  const rowHeight = Math.max(ROW_HEIGHT, series.length * SERIES_HEIGHT + 12);
  const bottom = 4 + rows.length * rowHeight;
  const place = (value) => left + (room * (value - low)) / (high - low);
  const picture = svgElement("svg", { class: "intervals", width: left + room + right, height: bottom + 46, role: "presentation" });
  const write = (x, y, anchor, text, more = {}) => (
    svgElement("text", { x, y, "text-anchor": anchor, "font-size": FONT_SIZE, ...more }, text));
  const axis = niceTicks(low, high, Math.max(2, Math.min(8, room / 75)));
  for (const tick of axis.ticks) {
    const kind = tick === 0 && (data.signed || data.bars) ? "zero" : "grid";
    picture.append(
      svgElement("line", { x1: place(tick), x2: place(tick), y1: 4, y2: bottom + 5, class: kind }),
      write(place(tick), bottom + 19, "middle", fixedNumber(tick, axis.decimals, data.signed), { class: "tick" }),
    );
  }
  picture.append(write(left + room / 2, bottom + 40, "middle", data.x_label));
  rows.forEach((_, row) => {
    const top = 4 + row * rowHeight;
    const middle = top + rowHeight / 2;
    const group = svgElement("g", { "data-row": row });
    group.append(
      svgElement("rect", { x: 0, y: top, width: left + room + right, height: rowHeight, class: "row" }),
      write(left - 10, middle + 4.5, "end", names[row]),
      write(left + room + 12, middle + 4.5, "start", numbers[row]),
    );
    series.forEach((each, index) => {
      const y = middle + (index - (series.length - 1) / 2) * SERIES_HEIGHT;
      if (!figure.off.has(index)) group.append(...intervalMarks(data, each, index, row, y, place));
    });
    picture.append(group);
  });
  const show = (event) => {
    const row = event.target.closest("[data-row]")?.dataset.row;
    if (!row) return;
    const lines = series.map((each) => (
      `${series.length > 1 ? `${each.name}: ` : ""}${intervalText(data, each, row, decimals)}`));
    showTip([[rows[row], ...lines]], event);
  };
  picture.addEventListener("pointermove", show);
  picture.addEventListener("pointerdown", show);
  picture.addEventListener("pointerleave", hideTipOnLeave);
  drawing.replaceChildren(picture);
}

function intervalMarks(data, { values, low, high }, index, row, y, place) {
  const value = values[row];
  if (value === null) return [];
  const colour = `series-${index % 7}`;
  if (data.bars) {
    const [start, end] = [place(Math.min(value, 0)), place(Math.max(value, 0))];
    return [svgElement("rect", { x: start, y: y - 6, width: end - start, height: 12, class: `bar ${colour}` })];
  }
  const marks = [];
  if ((low[row] ?? null) !== null && (high[row] ?? null) !== null) {
    const [start, end] = [place(low[row]), place(high[row])];
    marks.push(svgElement("path", {
      d: `M${start} ${y}H${end}M${start} ${y - 4}v8M${end} ${y - 4}v8`, class: `whisker ${colour}`,
    }));
  }
  const shape = INTERVAL_MARKS[index % INTERVAL_MARKS.length];
  marks.push(svgElement("path", { d: shape, transform: `translate(${place(value)} ${y})`, class: `dot ${colour}` }));
  return marks;
}

// A circle, a square, a diamond and triangles, in the order of GLYPHS.
const INTERVAL_MARKS = [
  "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z", "M-4.5 -4.5h9v9h-9z", "M0 -6l6 6l-6 6l-6 -6z", "M0 -6l6 10h-12z",
  "M-2 -6h4v4h4v4h-4v4h-4v-4h-4v-4h4z", "M-6 -4l2 -2l4 4l4 -4l2 2l-4 4l4 4l-2 2l-4 -4l-4 4l-2 -2l4 -4z", "M0 6l6 -10h-12z",
];
