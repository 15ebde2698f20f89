// The labels of a map: as many as can stand beside their points with nothing on top of anything.
// The first points of the data come first; so zooming in adds labels, and takes none away.

const LABEL_HEIGHT = 16;
const LABEL_LENGTH = 28; // characters; on hover the label is whole
const LABEL_AREA = 7000; // square pixels of the map for each label, so that points can be seen, too
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
  const taken = [];
  let count = 0;
  for (let place = 0; place < data.x.length && count < most; place += 1) {
    if (!data.labels[place] || isOff(figure, place)) continue;
    const x = xaxis.l2p(data.x[place]);
    const y = yaxis.l2p(data.y[place]);
    if (x < 0 || y < 0 || x > area.right || y > area.bottom) continue;
    const text = cut(data.labels[place].replaceAll(/\s+/gu, " "), LABEL_LENGTH);
    const spot = spots(x, y, textWidth(text, theme)).find((box) => fits(box, area, taken));
    if (!spot) continue;
    taken.push(spot, { left: x - 4, top: y - 4, right: x + 4, bottom: y + 4 });
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
    box(x + 6, middle), box(x - 6 - width, middle),
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
