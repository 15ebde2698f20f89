// The page: what is drawn when. A figure is drawn when it comes near.

const NEAR = "600px";
const REDRAW_AFTER = 150; // milliseconds
// A browser keeps some 16 WebGL contexts (8 on a phone), of which a figure takes two.
const MOST_WEBGL = isCoarse ? 2 : 4;
const PRINT_WIDTH = 680;
const LOAD_AFTER = 300; // milliseconds: then plotly is unpacked, though no figure is near yet

const figures = [...document.querySelectorAll("figure.block")].map((root) => ({
  root, drawing: root.querySelector(".drawing"), data: null, isDrawn: false, off: new Set(), usesWebgl: false,
}));
const figureOf = new Map(figures.map((figure) => [figure.root, figure]));

function readData(figure) {
  figure.data ??= JSON.parse(figure.root.querySelector("script").textContent);
  return figure.data;
}

function draw(figure) {
  const theme = readTheme();
  const width = isPrinting ? PRINT_WIDTH : figure.root.clientWidth;
  const { kind, is_map: isMap } = readData(figure);
  figure.isDrawn = true;
  if (kind === "pyramid") {
    drawPyramid(figure, theme, width);
    return;
  }
  const picture = PICTURES[kind](figure, theme, width);
  const config = {
    displaylogo: false, displayModeBar: picture.canZoom ? !isPrinting : false, scrollZoom: Boolean(picture.canZoom),
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    toImageButtonOptions: { filename: figure.root.id.replace(/^_b_/u, ""), scale: 2 },
  };
  figure.usesWebgl = Boolean(picture.usesWebgl);
  if (figure.usesWebgl) spareWebgl(figure);
  const isFirst = !figure.drawing.classList.contains("js-plotly-plot");
  Plotly.react(figure.drawing, picture.traces, picture.layout, config);
  figure.entries = picture.entries;
  if (figure.usesWebgl && figure.drawing.querySelector(".no-webgl")) {
    drawWithoutWebgl(figure);
    return;
  }
  if (isFirst) {
    const show = (event) => showTip(figure.entries(event), event.event);
    figure.drawing.on("plotly_hover", show);
    figure.drawing.on("plotly_click", show); // what a finger does
    figure.drawing.on("plotly_unhover", hideTipOnLeave);
    figure.drawing.on("plotly_webglcontextlost", () => drawWithoutWebgl(figure));
    keepWheel(figure);
    addLegend(figure);
  }
  if (isMap) {
    drawMapLabels(figure, theme);
    if (isFirst) {
      const again = () => requestAnimationFrame(() => figure.isDrawn && drawMapLabels(figure, readTheme()));
      figure.drawing.on("plotly_relayout", again);
      figure.drawing.on("plotly_relayouting", again);
      figure.drawing.on("plotly_restyle", again);
    }
  }
}

function addLegend(figure) {
  const { kind, series, bars } = figure.data;
  const names = kind === "lines" ? series.map((each) => each.name) : kind === "points" ? figure.groups.names : [];
  if (names.length < 2) return;
  const marks = names.map((_, place) => (bars ? "■" : GLYPHS[place % GLYPHS.length]));
  makeLegend(figure, names, marks, (place, isOn) => {
    if (figure.isDrawn) Plotly.restyle(figure.drawing, { visible: isOn }, [place]);
  });
}

// The wheel scrolls the page, and zooms a figure only with Ctrl or after a click into it.
function keepWheel(figure) {
  let isActive = false;
  const { drawing } = figure;
  drawing.addEventListener("pointerdown", () => { isActive = true; });
  drawing.addEventListener("pointerleave", () => { isActive = false; hideTipOnLeave(); });
  drawing.addEventListener("wheel", (event) => {
    if (!isActive && !event.ctrlKey && !event.metaKey) event.stopPropagation();
  }, { capture: true });
}

function drawWithoutWebgl(figure) {
  hasWebgl = false;
  clear(figure);
  draw(figure);
}

function clear(figure) {
  figure.drawing.style.minHeight = `${figure.drawing.offsetHeight}px`;
  Plotly.purge(figure.drawing);
  figure.drawing.replaceChildren();
  figure.drawing.classList.remove("js-plotly-plot");
  figure.isDrawn = false;
}

// Give up the WebGL figures that are farthest from the one to be drawn.
function spareWebgl(figure) {
  const place = figures.indexOf(figure);
  const others = figures.filter((other) => other !== figure && other.isDrawn && other.usesWebgl);
  others.sort((one, other) => Math.abs(figures.indexOf(other) - place) - Math.abs(figures.indexOf(one) - place));
  others.slice(0, Math.max(0, others.length - MOST_WEBGL + 1)).forEach(clear);
}

// Figures are drawn one after the other, with a moment between them for the page to move.
let lastDrawn = Promise.resolve();

function drawSoon(figure) {
  lastDrawn = lastDrawn.then(() => drawNear(figure)).then(() => new Promise(requestAnimationFrame));
}

async function drawNear(figure) {
  if (figure.isDrawn) return;
  try {
    if (readData(figure).kind !== "pyramid") await loadPlotly();
    if (!figure.isDrawn) draw(figure);
  } catch (error) {
    figure.drawing.textContent = `This figure cannot be drawn here (${error.message}); it needs a browser of 2023 or later.`;
    console.error(error);
  }
}

function redraw() {
  hideTip();
  for (const figure of figures) if (figure.isDrawn) draw(figure);
}

// From the window, in pixels.
function distance({ boundingClientRect: { top, bottom } }) {
  return Math.max(top - innerHeight, -bottom, 0);
}

function watch() {
  const observer = new IntersectionObserver((entries) => {
    const near = entries.filter((entry) => entry.isIntersecting);
    near.sort((one, other) => distance(one) - distance(other));
    for (const entry of near) drawSoon(figureOf.get(entry.target));
  }, { rootMargin: NEAR });
  for (const figure of figures) observer.observe(figure.root);
  let timer = 0;
  let width = document.documentElement.clientWidth;
  addEventListener("resize", () => {
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    clearTimeout(timer);
    timer = setTimeout(redraw, REDRAW_AFTER);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("scroll", hideTip, { passive: true });
}

// On paper everything is drawn, for which plotly has to be there before.
function watchPrinting() {
  let drawn = [];
  addEventListener("beforeprint", () => {
    isPrinting = true;
    drawn = figures.filter((figure) => figure.isDrawn);
    for (const figure of figures) {
      if (readData(figure).kind === "pyramid" || window.Plotly) draw(figure);
    }
  });
  addEventListener("afterprint", () => {
    isPrinting = false;
    for (const figure of drawn) draw(figure);
  });
}

for (const block of document.querySelectorAll(".block.table")) makeTable(block);
for (const figure of figures) {
  const details = figure.root.querySelector("details.values");
  details.addEventListener("toggle", () => makeValues(figure.root, readData(figure)), { once: true });
}
if (matchMedia("(max-width: 70rem)").matches) document.getElementById("_contents")?.removeAttribute("open");
watch();
watchPrinting();
addEventListener("load", () => {
  const isNeeded = figures.some((figure) => !figure.root.classList.contains("pyramid"));
  if (isNeeded) setTimeout(loadPlotly, LOAD_AFTER);
});
