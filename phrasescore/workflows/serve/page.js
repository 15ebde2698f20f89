"use strict";

const NUM_COLOURS = 7;
const NBEST = 10;
const part = (id) => document.getElementById(id);
const form = part("form");
let latest = 0; // the number of the latest request: earlier answers are not shown

// Texts become text nodes, so that markup in them is shown as it is.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const decimals = (value, digits) => (value === null ? "–" : value.toFixed(digits));

async function translate(text) {
  const response = await fetch("translate", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ text, nbest: NBEST, explain: true }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer.translations[0];
}

async function submit() {
  const text = part("text").value.trim().replaceAll(/\s*\n\s*/gu, " ");
  if (!text) return;
  const number = ++latest;
  const started = performance.now();
  part("problem").hidden = true;
  part("result").classList.add("waiting");
  try {
    const found = await translate(text);
    if (number === latest) show(found, (performance.now() - started) / 1000);
  } catch (error) {
    if (number !== latest) return;
    part("result").hidden = true;
    part("problem").hidden = false;
    const isLost = error instanceof TypeError || error instanceof SyntaxError;
    part("problem").textContent = isLost ? "The server does not answer." : error.message;
  } finally {
    if (number === latest) part("result").classList.remove("waiting");
  }
}

function show(found, seconds) {
  const { text, confidence, alternatives = [] } = found;
  part("translation").textContent = text || "(no translation)";
  part("facts").textContent = `Confidence ${decimals(confidence, 3)}, ${seconds.toFixed(2)} seconds.`;
  part("result").hidden = false;
  listAlternatives(found, alternatives);
  choose(found, 0);
}

function listAlternatives(found, alternatives) {
  const features = alternatives[0]?.features ?? [];
  const heads = ["translation", "score", ...features.map(({ name }) => name)].map((name, column) =>
    element("th", { scope: "col", class: column ? "number" : "" }, name));
  const best = new Map(features.map(({ name, contribution }) => [name, contribution]));
  const rows = alternatives.map((each, place) => {
    const button = element("button", { type: "button", dir: "auto" }, each.words || "(nothing)");
    const row = element("tr", {}, element("td", {}, button));
    row.append(element("td", { class: "number" }, decimals(each.score, 3)));
    for (const { name, values, weights, contribution } of each.features) {
      const change = contribution - (best.get(name) ?? 0);
      const tone = Math.abs(change) < 5e-4 ? "" : change > 0 ? " better" : " worse";
      const products = values.map((value, at) => `${value} × ${weights[at]}`).join("\n");
      row.append(element("td", { class: `number${tone}`, title: products }, decimals(contribution, 3)));
    }
    row.addEventListener("click", () => choose(found, place));
    return row;
  });
  part("alternatives").replaceChildren(
    element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows),
  );
}

function choose(found, place) {
  const chosen = found.alternatives?.[place];
  [...part("alternatives").tBodies[0].rows].forEach((row, at) => {
    row.classList.toggle("chosen", at === place);
    row.querySelector("button").setAttribute("aria-pressed", String(at === place));
  });
  const words = chosen?.words ? chosen.words.split(" ") : [];
  const phrases = chosen?.phrases ?? [];
  part("of-phrases").hidden = !phrases.length;
  drawPhrases(found.source, words, phrases);
  part("of-attention").hidden = !chosen?.attention;
  if (chosen?.attention) drawAttention(found.source, words, chosen.attention);
}

function drawPhrases(source, target, phrases) {
  const numbered = phrases.map((phrase, number) => ({ ...phrase, number }));
  const inSource = numbered.toSorted((one, other) => one.source_start - other.source_start);
  const rows = [
    ["sentence", inSource.map((each) => chip(each, source.slice(each.source_start, each.source_end)))],
    ["translation", numbered.map((each) => chip(each, target.slice(each.target_start, each.target_end)))],
  ];
  part("phrases").replaceChildren(...rows.flatMap(([name, chips]) => [
    element("dt", {}, name), element("dd", { dir: "auto" }, ...chips.flatMap((each) => [each, " "])),
  ]));
}

function chip({ number }, words) {
  const made = element("span", { class: "phrase", tabindex: "0", "data-number": number }, words.join(" ") || "∅");
  made.style.setProperty("--phrase", `var(--series-${number % NUM_COLOURS})`);
  for (const type of ["pointerenter", "focus"]) made.addEventListener(type, () => mark(number));
  for (const type of ["pointerleave", "blur"]) made.addEventListener(type, () => mark(null));
  return made;
}

function mark(number) {
  for (const each of document.querySelectorAll(".phrase")) {
    each.classList.toggle("chosen", each.dataset.number === String(number));
  }
}

function drawAttention(source, target, weights) {
  const columns = [...source, "</s>"];
  const heads = columns.map((word) => element("th", { scope: "col" }, word));
  const rows = [...target, "</s>"].map((word, row) => {
    const cells = columns.map((read, column) => {
      const weight = weights[row][column];
      const cell = element("td", { title: `${word} ← ${read}: ${weight.toFixed(3)}` });
      cell.style.setProperty("--weight", weight);
      cell.addEventListener("click", () => { part("cell").textContent = cell.title; });
      return cell;
    });
    return element("tr", {}, element("th", { scope: "row" }, word), ...cells);
  });
  part("cell").textContent = "";
  part("attention").replaceChildren(
    element("thead", {}, element("tr", {}, element("td"), ...heads)), element("tbody", {}, ...rows),
  );
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
part("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
