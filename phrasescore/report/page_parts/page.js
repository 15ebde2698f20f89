// The page: what is drawn when. A figure is drawn when it comes near.

const NEAR = 600; // pixels from the window
const REDRAW_AFTER = 150; // milliseconds
// A browser keeps some 16 WebGL contexts (8 on a phone), of which a figure takes two.
const MOST_WEBGL = isCoarse ? 2 : 4;
const PRINT_WIDTH = 680;
const LOAD_AFTER = 300; // milliseconds: then plotly is unpacked, though no figure is near yet

const DRAWN_HERE = { pyramid: drawPyramid, intervals: drawIntervals }; // without plotly

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
  figure.drawing.classList.add("drawn");
  if (kind in DRAWN_HERE) {
    DRAWN_HERE[kind](figure, theme, width);
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
  const { kind, series } = figure.data;
  const names = kind === "lines" ? series.map((each) => each.name) : kind === "points" ? figure.groups.names : [];
  if (names.length < 2) return;
  const marks = names.map((_, place) => GLYPHS[place % GLYPHS.length]);
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
  figure.drawing.style.minHeight = `${figure.drawing.offsetHeight}px`; // stays: it is what it needs
  Plotly.purge(figure.drawing);
  figure.drawing.replaceChildren();
  figure.drawing.classList.remove("js-plotly-plot");
  figure.isDrawn = false;
}

// From the window, in pixels; 0 for what is seen.
function distance({ root }) {
  const { top, bottom } = root.getBoundingClientRect();
  return Math.max(top - innerHeight, -bottom, 0);
}

function byDistance(some) {
  return [...some].map((figure) => [distance(figure), figure]).sort(([one], [other]) => one - other);
}

// Give up the WebGL figures that are farthest from the window, and none that is seen.
function spareWebgl(figure) {
  const others = figures.filter((other) => other !== figure && other.isDrawn && other.usesWebgl);
  for (const [far, other] of byDistance(others).slice(MOST_WEBGL - 1)) if (far > 0) clear(other);
}

// Figures are drawn one after the other, with a moment between them for the page to move.
let lastDrawn = Promise.resolve();

function drawSoon(figure) {
  lastDrawn = lastDrawn.then(() => drawNear(figure)).then(() => new Promise(requestAnimationFrame));
}

async function drawNear(figure) {
  // When it has left meanwhile, it is drawn as it comes again.
  if (figure.isDrawn || distance(figure) > NEAR) return;
  try {
    if (!(readData(figure).kind in DRAWN_HERE)) await loadPlotly();
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

function watch() {
  const drawEntered = (entries) => {
    const entered = entries.filter((entry) => entry.isIntersecting);
    for (const [, figure] of byDistance(entered.map(({ target }) => figureOf.get(target)))) drawSoon(figure);
  };
  // The second one is for figures that were given up while they were near.
  for (const rootMargin of [`${NEAR}px`, "0px"]) {
    const observer = new IntersectionObserver(drawEntered, { rootMargin });
    for (const figure of figures) observer.observe(figure.root);
  }
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
      if (readData(figure).kind in DRAWN_HERE || window.Plotly) draw(figure);
    }
  });
  addEventListener("afterprint", () => {
    isPrinting = false;
    for (const figure of drawn) draw(figure);
  });
}

// The contents are beside the text if there is room, and show the section that is being read.
function watchContents() {
  const contents = document.getElementById("_contents");
  const isBeside = matchMedia("(min-width: 1200px)");
  const fold = () => contents?.toggleAttribute("open", isBeside.matches);
  isBeside.addEventListener("change", fold);
  fold();
  const links = [...document.querySelectorAll("nav a")];
  const sections = links.map((link) => document.getElementById(link.getAttribute("href").slice(1)));
  let isDue = false;
  const mark = () => {
    isDue = false;
    const isEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const read = sections.findLastIndex((section) => section.getBoundingClientRect().top < innerHeight / 3);
    const current = isEnd && scrollY > 0 ? links.length - 1 : Math.max(read, 0);
    links.forEach((link, place) => {
      if (place === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  };
  addEventListener("scroll", () => {
    if (!isDue) requestAnimationFrame(mark);
    isDue = true;
  }, { passive: true });
  mark();
  // A section that a link leads to is opened.
  const open = () => document.querySelector(`${location.hash || "#_"} > details`)?.setAttribute("open", "");
  addEventListener("hashchange", open);
  links.forEach((link) => link.addEventListener("click", () => setTimeout(open)));
  open();
}

for (const block of document.querySelectorAll(".block.table")) makeTable(block);
for (const figure of figures) {
  const details = figure.root.querySelector("details.values");
  details.addEventListener("toggle", () => makeValues(figure.root, readData(figure)), { once: true });
}
watchContents();
watch();
watchPrinting();
addEventListener("load", () => {
  if (document.getElementById("_plotly")) setTimeout(loadPlotly, LOAD_AFTER);
});
