// What all figures share: colours, plotly itself, the text on hover, the legend.

const isCoarse = matchMedia("(pointer: coarse)").matches;
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star"];
const GLYPHS = ["●", "■", "◆", "▲", "✚", "✖", "▼", "★"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const FONT_SIZE = 13;

// Whether the page is being printed: then everything is drawn at once, light and narrow.
let isPrinting = false;

// The colours of the page as it is shown now.
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const series = ["series-0", "series-1", "series-2", "series-3", "series-4", "series-5", "series-6"];
  return {
    text: colour("text"), muted: colour("muted"), rule: colour("rule"), ground: colour("ground"),
    series: series.map(colour), family: style.getPropertyValue("font-family"),
  };
}

// Plotly reads some HTML in the texts that it shows; these shall be shown as they are.
function literal(text) {
  const safe = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return safe.replaceAll(/[\r\n]+/gu, " ");
}

function cut(text, length) {
  const characters = [...text];
  return characters.length <= length ? text : `${characters.slice(0, length - 1).join("")}…`;
}

const measuring = document.createElement("canvas").getContext("2d");
const widths = new Map();

// In pixels, as it is drawn at FONT_SIZE.
function textWidth(text, theme) {
  if (!widths.has(text)) {
    measuring.font = `${FONT_SIZE}px ${theme.family}`;
    widths.set(text, measuring.measureText(text).width);
  }
  return widths.get(text);
}

// Plotly

let plotlyLoaded = null;

function loadPlotly() {
  plotlyLoaded ??= unpack(document.getElementById("_plotly").textContent).then((text) => {
    document.head.append(element("script", {}, text));
  });
  return plotlyLoaded;
}

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

// False as well once it has failed: a browser may refuse a context at any time.
let hasWebgl = (() => {
  const context = document.createElement("canvas").getContext("webgl");
  context?.getExtension("WEBGL_lose_context")?.loseContext();
  return context !== null;
})();

// What is shown on hover: lines of text, the first of each entry set off.

const tip = document.getElementById("_tip");

function showTip(entries, event) {
  const lines = entries.flatMap(([head, ...rest]) => [
    element("strong", { dir: "auto" }, head), ...rest.map((text) => element("span", {}, text)),
  ]);
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const { clientX = 0, clientY = 0 } = event.touches?.[0] ?? event;
  const room = document.documentElement;
  const left = Math.min(clientX + 14, room.clientWidth - tip.offsetWidth - 6);
  const isBelow = clientY + 18 + tip.offsetHeight < room.clientHeight;
  tip.style.left = `${Math.max(left, 6)}px`;
  tip.style.top = `${Math.max(isBelow ? clientY + 18 : clientY - tip.offsetHeight - 12, 6)}px`;
}

function hideTip() {
  tip.hidden = true;
}

// A finger that is lifted leaves what it has shown; it goes when another place is touched.
let isTouched = false;

function hideTipOnLeave() {
  if (!isTouched) hideTip();
}

addEventListener("pointerdown", (event) => {
  isTouched = event.pointerType === "touch";
  if (isTouched) hideTip();
}, { capture: true });

// A legend of buttons, which hide and show what they name.
function makeLegend(figure, names, marks, onToggle) {
  if (figure.legend) return;
  const list = element("ul", { class: "legend", "aria-label": "Legend" });
  names.forEach((name, place) => {
    const mark = element("span", { class: `mark series-${place % 7}`, "aria-hidden": "true" }, marks[place]);
    const button = element("button", { type: "button", "aria-pressed": "true" }, mark, name);
    button.addEventListener("click", () => {
      const isOn = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(isOn));
      figure.off[isOn ? "delete" : "add"](place);
      onToggle(place, isOn);
    });
    list.append(element("li", {}, button));
  });
  figure.legend = list;
  figure.drawing.before(list);
}
