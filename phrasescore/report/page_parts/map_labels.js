// The labels of a map: as many as can stand beside their points with nothing on top of anything.
// The first points of the data come first; so zooming in adds labels, and takes none away.

const LABEL_HEIGHT = 16;
const LABEL_LENGTH = 28; // characters, fewer on a small map; on hover the label is whole
const LABEL_AREA = 7000; // square pixels of the map for each label, so that points can be seen, too
const SPARED_POINTS = 300; // where so few are in view, no label covers another point
const SVG = "http://www.w3.org/2000/svg";

function svgElement(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function drawMapLabels(figure, theme) {
  const { data, drawing } = figure;
  const { xaxis, yaxis } = drawing._fullLayout;
  const area = { left: 0, top: 0, right: xaxis._length, bottom: yaxis._length };
  const most = Math.max(10, Math.floor((area.right * area.bottom) / LABEL_AREA));
  const layer = svgElement("svg", { class: "labels", "aria-hidden": "true" });
  const length = Math.min(LABEL_LENGTH, Math.floor(area.right / 16));
  const inView = [];
  data.x.forEach((value, place) => {
    if (isOff(figure, place)) return;
    const [x, y] = [xaxis.l2p(value), yaxis.l2p(data.y[place])];
    if (x >= 0 && y >= 0 && x <= area.right && y <= area.bottom) inView.push({ place, x, y });
  });
  const mark = ({ x, y }) => ({ left: x - 3, top: y - 3, right: x + 3, bottom: y + 3 });
  const taken = inView.length <= SPARED_POINTS ? inView.map(mark) : [];
  let count = 0;
  for (const { place, x, y } of inView) {
    if (count === most) break;
    if (!data.labels[place]) continue;
    const text = cut(data.labels[place].replaceAll(/\s+/gu, " "), length);
    const spot = spots(x, y, textWidth(text, theme)).find((box) => fits(box, area, taken));
    if (!spot) continue;
    taken.push(spot, mark({ x, y }));
    layer.append(svgElement("text", {
      x: xaxis._offset + spot.left + 2, y: yaxis._offset + spot.bottom - 4, "font-size": FONT_SIZE,
    }, text));
    count += 1;
  }
  drawing.querySelector("svg.labels")?.remove();
  drawing.append(layer);
}

function isOff(figure, place) {
  if (!figure.off.size || !figure.data.groups.length) return false;
  return figure.off.has(figure.groups.names.indexOf(figure.data.groups[place]));
}

// Right of a point, left of it, above, below.
function spots(x, y, textLength) {
  const width = textLength + 4;
  const box = (left, top) => ({ left, top, right: left + width, bottom: top + LABEL_HEIGHT });
  const middle = y - LABEL_HEIGHT / 2;
  return [
    box(x + 7, middle), box(x - 7 - width, middle),
    box(x - width / 2, y - 6 - LABEL_HEIGHT), box(x - width / 2, y + 6),
  ];
}

function fits(box, area, taken) {
  const isInside = box.left >= area.left && box.right <= area.right
    && box.top >= area.top && box.bottom <= area.bottom;
  return isInside && !taken.some((other) => (
    box.left < other.right + 3 && other.left < box.right + 3
    && box.top < other.bottom && other.top < box.bottom));
}
