// The soft parse: a triangle of units over the words. The stronger a line, the more of the upper unit
// comes from the lower one; the fuller a unit, the more of it is new.

const FAINT = 0.02; // what is weaker is not drawn

function drawPyramid(figure, theme, width) {
  const { data, drawing } = figure;
  const count = data.words.length;
  const room = (width - 20) / Math.max(count, 1);
  const step = Math.min(64, Math.max(24, room));
  const rise = Math.min(44, Math.max(20, step * 0.72));
  const lengths = data.words.map((word) => textWidth(cut(word, 22), theme));
  const isSlanted = Math.max(0, ...lengths) > step - 6;
  const low = isSlanted ? 0.71 * Math.max(0, ...lengths) + 22 : 30;
  // Slanted words lean out to the left of the first unit.
  const left = isSlanted ? Math.max(0, ...lengths.map((length, place) => 0.71 * length - step * (place + 0.5))) + 8 : 6;
  const radius = Math.min(8, step / 5);
  const height = count * rise + low;
  const picture = svgElement("svg", {
    width: left + count * step + 8, height, role: "presentation",
  });
  const spot = (level, place) => [
    left + (place + level / 2 + 0.5) * step, (count - level - 0.5) * rise + 4,
  ];
  const [edges, units, words] = ["edges", "units", "words"].map((name) => svgElement("g", { class: name }));
  picture.append(edges, units, words);
  data.levels.forEach((level, below) => level.forEach((shares, place) => {
    const [x, y] = spot(below + 1, place);
    shares.slice(1).forEach((share, side) => {
      if (share < FAINT) return;
      const [x2, y2] = spot(below, place + side);
      edges.append(svgElement("line", {
        x1: x, y1: y, x2, y2, "stroke-opacity": share.toFixed(3), "stroke-width": (0.8 + 2.2 * share).toFixed(2),
      }));
    });
    units.append(makeUnit(data, below + 1, place, x, y, radius));
  }));
  data.words.forEach((word, place) => {
    const [x, y] = spot(0, place);
    units.append(svgElement("circle", { cx: x, cy: y, r: 2.5, class: "leaf" }));
    const [wordX, wordY] = [x + (isSlanted ? 4 : 0), y + 18];
    const turn = isSlanted ? { transform: `rotate(-45 ${wordX} ${wordY})`, "text-anchor": "end" } : { "text-anchor": "middle" };
    words.append(svgElement("text", { x: wordX, y: wordY, "font-size": FONT_SIZE, "data-word": place, ...turn }, cut(word, 22)));
  });
  units.addEventListener("pointerover", (event) => hoverUnit(figure, event));
  units.addEventListener("pointerdown", (event) => hoverUnit(figure, event));
  units.addEventListener("pointerout", () => {
    if (!isTouched) leaveUnit(figure);
  });
  const isFirst = !drawing.childElementCount;
  drawing.replaceChildren(picture);
  // Where it is wider than the window the top is what is seen first.
  if (isFirst) drawing.scrollLeft = (drawing.scrollWidth - drawing.clientWidth) / 2;
}

function makeUnit(data, level, place, x, y, radius) {
  const unit = svgElement("g", { "data-level": level, "data-place": place });
  unit.append(svgElement("circle", { cx: x, cy: y, r: radius, class: "ground" }));
  unit.append(svgElement("circle", {
    cx: x, cy: y, r: radius, class: "unit", "fill-opacity": data.levels[level - 1][place][0].toFixed(3),
  }));
  return unit;
}

function hoverUnit(figure, event) {
  const unit = event.target.closest("[data-level]");
  if (!unit) return;
  leaveUnit(figure);
  const [level, place] = [Number(unit.dataset.level), Number(unit.dataset.place)];
  const [fresh, left, right] = figure.data.levels[level - 1][place].map((share) => share.toFixed(3));
  const words = figure.data.words.slice(place, place + level + 1).join(" ");
  unit.classList.add("hovered");
  figure.drawing.querySelectorAll("[data-word]").forEach((text) => {
    const at = Number(text.dataset.word);
    text.classList.toggle("covered", at >= place && at <= place + level);
  });
  showTip([[words, `new ${fresh}`, `left ${left}`, `right ${right}`]], event);
}

function leaveUnit(figure) {
  figure.drawing.querySelectorAll(".hovered, .covered").forEach((each) => (
    each.classList.remove("hovered", "covered")));
  hideTip();
}
