// The figures that plotly draws: for each, its traces, its layout, and what hovering shows.

const DRAWN_BY_SVG = 1500;
const BEHIND = 4; // pixels: points this near stand behind one another
const BEHIND_SHOWN = 6;

function baseLayout(theme, width, height) {
  return {
    width, height, autosize: false, uirevision: "keep", showlegend: false,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: theme.family, size: FONT_SIZE, color: theme.text },
    margin: { l: 56, r: 12, t: 12, b: 48 }, hovermode: "closest",
    hoverdistance: 12, dragmode: isCoarse || isPrinting ? false : "zoom",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: theme.muted, activecolor: theme.text },
  };
}

function baseAxis(theme, title) {
  return {
    title: { text: literal(title), standoff: 8 }, gridcolor: theme.rule, zerolinecolor: theme.rule,
    linecolor: theme.muted, automargin: true, ticks: "outside", tickcolor: theme.rule,
  };
}

// Scatter plots and maps

function groupPlaces(data) {
  const names = [...new Set(data.groups)];
  if (!names.length) return { names: [""], places: [data.x.map((_, place) => place)] };
  // Lengths, such as "5 words", in their order; others as they come.
  if (names.every((name) => /^\d/u.test(name))) names.sort((one, other) => parseInt(one, 10) - parseInt(other, 10));
  const places = new Map(names.map((name) => [name, []]));
  data.groups.forEach((name, place) => places.get(name).push(place));
  return { names, places: [...places.values()] };
}

function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) [low, high] = [0, 1];
  const pad = 0.04 * (high - low) || 0.5;
  return [low - pad, high + pad];
}

function pointsPicture(figure, theme, room) {
  const { data } = figure;
  figure.groups ??= groupPlaces(data);
  const { names, places } = figure.groups;
  const count = data.x.length;
  const isSquare = data.equal || data.is_map;
  const width = data.equal ? Math.min(room, 660) : room;
  const height = isSquare ? Math.min(width, 640) : Math.min(480, Math.max(320, width * 0.7));
  const type = count > DRAWN_BY_SVG && hasWebgl && !isPrinting ? "scattergl" : "scatter";
  const size = Math.min(9, Math.max(3.5, 0.4 * Math.sqrt((width * height) / count)));
  const traces = places.map((group, place) => ({
    type, mode: "markers", hoverinfo: "none", name: literal(names[place]),
    x: group.map((each) => data.x[each]), y: group.map((each) => data.y[each]),
    visible: !figure.off.has(place),
    marker: {
      size, opacity: count > 2000 ? 0.55 : 0.75, color: theme.series[place % theme.series.length],
      symbol: SYMBOLS[place % SYMBOLS.length],
    },
  }));
  const layout = baseLayout(theme, width, height);
  const [xRange, yRange] = data.equal
    ? Array(2).fill(extent([...extent(data.x), ...extent(data.y)])) : [extent(data.x), extent(data.y)];
  layout.xaxis = { ...baseAxis(theme, data.x_label), range: xRange };
  layout.yaxis = { ...baseAxis(theme, data.y_label), range: yRange };
  if (isSquare) Object.assign(layout.yaxis, { scaleanchor: "x", scaleratio: 1 });
  if (data.is_map) {
    const bare = { showgrid: false, zeroline: false, showticklabels: false, ticks: "", mirror: true, showline: true };
    Object.assign(layout.xaxis, bare, data.x_label ? {} : { title: { text: "" }, automargin: false });
    Object.assign(layout.yaxis, bare, data.y_label ? {} : { title: { text: "" }, automargin: false });
    layout.margin = { l: data.y_label ? 28 : 4, r: 4, t: 34, b: data.x_label ? 28 : 4 };
    if (!isCoarse && !isPrinting) layout.dragmode = "pan";
  } else {
    layout.margin.t = 34;
  }
  if (data.equal) layout.shapes = [diagonal(xRange, theme)];
  return {
    traces, layout, canZoom: true, usesWebgl: type === "scattergl",
    entries: (event) => pointEntries(figure, event.points[0]),
  };
}

// It goes on far beyond what is shown first.
function diagonal([low, high], theme) {
  const far = 20 * (high - low);
  return {
    type: "line", layer: "below", x0: low - far, y0: low - far, x1: high + far, y1: high + far,
    line: { color: theme.muted, width: 1, dash: "dot" },
  };
}

// The point under the pointer, and those that it hides.
function pointEntries(figure, hovered) {
  const { data, drawing } = figure;
  const { names, places } = figure.groups;
  const { xaxis, yaxis } = drawing._fullLayout;
  const first = places[hovered.curveNumber][hovered.pointNumber];
  const found = [[first, hovered.curveNumber]];
  places.forEach((group, curve) => {
    if (figure.off.has(curve)) return;
    for (const place of group) {
      const isNear = Math.abs(xaxis.l2p(data.x[place]) - xaxis.l2p(data.x[first])) < BEHIND
        && Math.abs(yaxis.l2p(data.y[place]) - yaxis.l2p(data.y[first])) < BEHIND;
      if (isNear && place !== first) found.push([place, curve]);
    }
  });
  const entries = found.slice(0, BEHIND_SHOWN).map(([place, curve]) => {
    const lines = [data.labels[place]];
    if (data.groups.length) lines.push(names[curve]);
    if (!data.is_map) {
      const x = `${data.x_label || "x"}: ${shortNumber(data.x[place])}`;
      lines.push(`${x}, ${data.y_label || "y"}: ${shortNumber(data.y[place])}`);
    }
    return lines;
  });
  const hidden = found.length - entries.length;
  return hidden ? [...entries, [`and ${hidden} more here`]] : entries;
}

// Heat maps

function matrixPicture(figure, theme, width) {
  const { data } = figure;
  const rows = data.row_labels.map((label) => cut(label, 22));
  const columns = data.column_labels.map((label) => cut(label, 22));
  const widest = (labels) => Math.max(0, ...labels.map((label) => textWidth(label, theme)));
  const left = widest(rows) + 12 + (data.row_title ? 26 : 0);
  const slant = 0.71 * widest(columns);
  const top = slant + 22 + (data.column_title ? 26 : 0);
  // Slanted labels lean out to the right of the last column.
  const right = Math.max(12, slant - 6);
  const room = (width - left - right) / Math.max(columns.length, 1);
  const cell = Math.min(30, Math.max(19, Math.floor(room)));
  const [wide, high] = [columns.length * cell, rows.length * cell];
  const layout = baseLayout(theme, wide + left + right, high + top + 6);
  layout.margin = { l: left, r: right, t: top, b: 6 };
  layout.dragmode = false;
  const axis = (labels, title) => ({
    fixedrange: true, showgrid: false, zeroline: false, ticks: "outside", ticklen: 4,
    tickcolor: "rgba(0,0,0,0)", showline: true, mirror: true, linecolor: theme.muted, range: [-0.5, labels.length - 0.5],
    tickvals: labels.map((_, place) => place), ticktext: labels.map(literal),
    title: { text: literal(title), standoff: 10 },
  });
  layout.xaxis = { ...axis(columns, data.column_title), side: "top", tickangle: -45 };
  layout.yaxis = { ...axis(rows, data.row_title), range: [rows.length - 0.5, -0.5] };
  const trace = {
    type: "heatmap", z: data.values, zmin: 0, zmax: 1, showscale: false, hoverinfo: "none",
    colorscale: [[0, "#000"], [1, "#fff"]],
  };
  const entries = (event) => {
    const { x, y } = event.points[0];
    const words = `${data.row_labels[y]} ← ${data.column_labels[x]}`;
    return [[words, shortNumber(data.values[y][x])]];
  };
  return { traces: [trace], layout, entries };
}

// Lines

function linesPicture(figure, theme, width) {
  const { data } = figure;
  const isNamed = data.series.some((series) => series.x.some((x) => typeof x === "string"));
  const names = isNamed ? [...new Set(data.series.flatMap((series) => series.x.map(String)))] : [];
  const positions = new Map(names.map((name, place) => [name, place]));
  // Series stand side by side at a name, so that no interval hides another.
  const step = Math.min(0.12, 0.6 / data.series.length);
  const shift = (index) => (index - (data.series.length - 1) / 2) * step;
  const traces = data.series.map((series, index) => {
    const colour = theme.series[index % theme.series.length];
    const trace = {
      x: series.x.map((x) => (isNamed ? positions.get(String(x)) + shift(index) : x)), y: series.y,
      name: literal(series.name), hoverinfo: "none", visible: !figure.off.has(index),
      type: "scatter", mode: isNamed ? "markers" : "lines+markers",
      marker: { color: colour, symbol: SYMBOLS[index % SYMBOLS.length], size: series.x.length > 60 ? 3 : 8 },
      line: { color: colour, width: 2, dash: DASHES[index % DASHES.length] },
    };
    if (series.spread.length) {
      const below = series.spread.map((spread, place) => Math.min(spread, series.y[place] ?? 0)); // no score is below 0
      trace.error_y = { type: "data", array: series.spread, arrayminus: below, symmetric: false, color: colour, thickness: 1.6, width: 3 };
    }
    return trace;
  });
  const layout = baseLayout(theme, width, Math.min(420, Math.max(300, width * 0.6)));
  layout.hovermode = "x";
  layout.hoverdistance = -1;
  layout.xaxis = baseAxis(theme, data.x_label);
  layout.yaxis = { ...baseAxis(theme, data.y_label), ...(data.log_y ? logTicks(data) : {}) };
  if (isNamed) {
    const labels = names.map((name) => literal(cut(name, 24)));
    const room = (width - 70) / Math.max(names.length, 1);
    const isTight = names.some((name) => textWidth(cut(name, 24), theme) > room - 6);
    Object.assign(layout.xaxis, {
      tickvals: names.map((_, index) => index), ticktext: labels, tickangle: isTight ? -40 : 0,
      range: [-0.6, names.length - 0.4], fixedrange: true, showgrid: false,
    });
    if (isTight) {
      // The first labels reach further left than the axis, where plotly would leave them out.
      const reach = names.map((name, index) => 0.77 * textWidth(cut(name, 24), theme) - (index + 0.4) * room);
      layout.margin.l = Math.max(layout.margin.l, ...reach);
    }
  } else if (data.series.every((series) => series.x.every(Number.isInteger))) {
    const [low, high] = extent(data.series.flatMap((series) => series.x));
    const { ticks } = niceTicks(low, high, Math.max(2, Math.min(10, width / 90)));
    const tickvals = ticks.filter(Number.isInteger);
    Object.assign(layout.xaxis, { tickvals, ticktext: tickvals.map((value) => fixedNumber(value, 0)) });
  }
  const entries = (event) => {
    const near = event.points[0].x;
    const x = isNamed ? names[Math.round(near)] : near;
    const lines = data.series.flatMap((series, index) => {
      const place = series.x.findIndex((each) => (isNamed ? String(each) : each) === x);
      if (place < 0 || figure.off.has(index)) return [];
      const spread = series.spread.length ? ` ± ${shortNumber(series.spread[place])}` : "";
      return [[series.name, `${shortNumber(series.y[place] ?? "–")}${spread}`]];
    });
    return [[`${data.x_label ? `${data.x_label}: ` : ""}${shortNumber(x)}`], ...lines];
  };
  return { traces, layout, entries };
}

// Ticks at all figures of a power of ten, at 1, 2 and 5, or at 1, as there is room.
function logTicks(data) {
  const values = data.series.flatMap((series) => series.y.filter((y) => y !== null));
  const [low, high] = extent(values.map(Math.log10));
  const decades = high - low;
  const figures = decades < 0.8 ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : decades < 4 ? [1, 2, 5] : [1];
  const tickvals = [];
  for (let power = Math.floor(low); power <= high; power += 1) {
    tickvals.push(...figures.map((figure) => figure * 10 ** power));
  }
  const ticktext = tickvals.map((value) => shortNumber(value));
  return { type: "log", tickvals, ticktext, minor: { ticks: "" } };
}

const PICTURES = { points: pointsPicture, matrix: matrixPicture, lines: linesPicture };
