"use strict";

const MOST = 100; // sentences of a request, and lines that are listed
const GROUPS = ["tables", "language models", "networks", "others"];
const LEADS = ["Open choice: many wordings come close.", "Close choice: a few wordings come close.", "Clear choice: no other wording comes close."];
const ENTITIES = { apos: "'", quot: '"', lt: "<", gt: ">", amp: "&", "#91": "[", "#93": "]", "#124": "|" };
// The blanks that a tokeniser adds.
const BLANKS = / (?=[.,)\]}…%](?: |$))|(?<=\p{L}['’]) (?=\p{L})| (?=['’]\p{L})|(?<=[([{]) /gu;
const part = (id) => document.getElementById(id);
const system = JSON.parse(part("main").dataset.system);
const [sourceLanguage, targetLanguage] = system.languages.map((code) => code ?? "");
const hasKeys = matchMedia("(hover: hover)").matches;
let latest = 0; // the number of the latest work: answers to earlier requests are not shown
let shown = {}; // what is explained: the phrases, the words of both sides, and the attention

// Texts become text nodes, so that markup in them is shown as it is.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function button(text, act) {
  const made = element("button", { type: "button", dir: "auto", lang: targetLanguage }, readable(text));
  made.addEventListener("click", act);
  return made;
}

const decimals = (value) => value.toFixed(3).replace("-", "−");
const count = (number) => `${number.toLocaleString("en")} sentence${number === 1 ? "" : "s"}`;
const plain = (word) => word.replaceAll(/&([a-z]+|#\d+);/gu, (all, name) => ENTITIES[name] ?? all);
const joined = (words) => plain(words).replaceAll(BLANKS, "");
const readable = (text) => (targetLanguage ? text : joined(text)) || "(no translation)";

// Return the part of a text that each word has, with the blanks before it.
function split(text, words) {
  let rest = text;
  const parts = words.map(plain).map((word) => {
    const own = rest.slice(0, rest.search(/\S|$/u) + word.length);
    rest = rest.slice(own.length);
    return own.trim().toLowerCase() === word.toLowerCase() ? own : null;
  });
  return parts.includes(null) ? words.map((word) => ` ${plain(word)}`) : parts;
}

async function ask(text, options = {}) {
  const body = JSON.stringify({ text, ...options });
  const response = await fetch("translate", { method: "POST", body }).catch(() => null);
  const answer = await response?.json().catch(() => null);
  if (answer?.translations) return answer.translations;
  const problem = answer?.error.replace(/^text:\d+: /u, "") ?? "The server does not answer.";
  throw Object.assign(new Error(problem), { status: answer && response.status });
}

const tell = (problem) => { part("problem").textContent = problem; };

function begin() {
  tell("");
  for (const id of ["progress", "about", "of-alternatives"]) part(id).hidden = true;
  part("done").textContent = part("translation").textContent = "";
  return ++latest;
}

async function explain(text) {
  const number = begin();
  const [found] = await ask(text, { nbest: 10, explain: true }).catch((error) => [error]);
  if (number !== latest) return;
  if (found instanceof Error) return tell(found.message);
  listAlternatives(text, found);
  choose(text, found, 0);
}

function submit(event, text = part("text").value) {
  event.preventDefault();
  part("text").value = text;
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  part("of-lines").hidden = true;
  if (lines.length > 1) translateLines(lines, "text");
  else if (lines.length) explain(lines[0]);
}

async function readFile() {
  const [file] = part("file").files;
  begin();
  part("of-lines").hidden = true;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    translateLines(text.replace(/\r?\n$/u, "").split(/\r?\n/u), file.name.replace(/\.[^.]*$/u, ""));
  } catch {
    tell(`${file.name}: expected a text file in UTF-8`);
  }
  part("file").value = ""; // so that the same file can be chosen again
}

// Translate in requests that take some seconds each; those that are refused are divided.
async function translateLines(lines, name) {
  const number = begin();
  const [found, refused] = [[], []];
  let size = 4;
  part("progress").hidden = false;
  part("progress").max = lines.length;
  while (found.length < lines.length) {
    part("progress").value = found.length;
    part("done").textContent = `${found.length.toLocaleString("en")} of ${count(lines.length)}`;
    const texts = lines.slice(found.length, found.length + size);
    const started = performance.now();
    const answers = await ask(texts).catch((error) => error);
    if (number !== latest) return;
    if (Array.isArray(answers)) {
      found.push(...answers);
      size = performance.now() - started < 3000 ? Math.min(MOST, 2 * size) : Math.ceil(size / 2);
    } else if (!answers.status) return tell(answers.message);
    else if (answers.status === 503) await new Promise((resolve) => { setTimeout(resolve, 1000); });
    else if (texts.length > 1) size = Math.ceil(texts.length / 2);
    else refused.push(`Line ${found.push({ text: "", unknown: [] })} has no translation: ${answers.message}`);
  }
  part("progress").hidden = true;
  tell(refused.slice(0, 5).join("\n"));
  listLines(lines, found, name);
}

function listLines(lines, found, name) {
  URL.revokeObjectURL(part("download").href);
  part("download").href = URL.createObjectURL(new Blob(found.map(({ text }) => `${text}\n`)));
  part("download").download = `${name}.${targetLanguage || "translated"}.txt`;
  part("done").textContent = `${count(lines.length)} translated${lines.length > MOST ? `; the first ${MOST} are listed` : ""}.`;
  part("lines").replaceChildren(...found.slice(0, MOST).map(({ text, unknown }, at) => element("li", {},
    button(text, () => explain(lines[at])),
    element("div", { class: "note", dir: "auto", lang: sourceLanguage }, plain(lines[at])),
    unknown.length ? element("div", { class: "note" }, `Unknown and copied: ${plain(unknown.join(", "))}`) : "")));
  part("of-lines").hidden = false;
}

function listAlternatives(text, found) {
  const { alternatives = [] } = found;
  const groups = GROUPS.filter((group) => group in (alternatives[0]?.groups ?? {}));
  const changes = alternatives.map((each) => groups.map((group) => each.groups[group] - alternatives[0].groups[group]));
  const most = Math.max(...changes.flat().map(Math.abs)) || 1;
  part("alternatives").replaceChildren(...alternatives.map((each, place) => {
    const bars = element("dl", {}, ...groups.map((group, at) => {
      const change = changes[place][at];
      const bar = element("dd", { class: change < 0 ? "bar worse" : "bar" });
      bar.style.setProperty("--size", Math.abs(change) / most);
      return element("div", {}, element("dt", {}, group), bar, element("dd", { class: "number" }, (change > 0 ? "+" : "") + decimals(change)));
    }));
    const sum = each.features.flatMap(({ name, values, weights, contribution }) =>
      [`${decimals(contribution)} ${name}`, ...values.map((value, at) => `    ${decimals(value)} × ${decimals(weights[at])}`)]);
    const score = element("details", {}, element("summary", {}, `Score ${decimals(each.score)}`), element("pre", {}, sum.join("\n")));
    return element("li", {}, button(each.text, () => choose(text, found, place)), place ? bars : "", score);
  }));
  part("of-alternatives").hidden = !alternatives.length;
}

function choose(text, found, place) {
  const chosen = found.alternatives?.[place] ?? { text: found.text, words: "", phrases: [], attention: null, unknown: [] };
  [...part("alternatives").children].forEach((card, at) => card.firstChild.setAttribute("aria-pressed", at === place));
  part("about").hidden = false;
  part("result").scrollIntoView({ block: "nearest" });
  drawPhrases(text, found.source, chosen);
  part("unknown").hidden = !chosen.unknown.length;
  part("unknown").lastChild.textContent = ` words are unknown to the system, and copied: ${plain(chosen.unknown.join(", "))}`;
  part("confidence").hidden = place > 0 || found.confidence === null;
  const [summary, note] = part("confidence").children;
  summary.textContent = LEADS[(found.confidence >= 0.15) + (found.confidence >= 0.5)];
  note.textContent = `${decimals(found.confidence ?? 0)} is the probability${system.isCalibrated ? "" : ", not calibrated,"} that none of the system's other wordings is better (by sentence BLEU). It does not say whether the translation is right.`;
}

// Show a translation as phrases; without phrases, each word is one.
function drawPhrases(text, words, { text: translation, words: translated, phrases, attention, unknown }) {
  const source = split(targetLanguage ? text : joined(text), words);
  const target = split(readable(translation), translated ? translated.split(" ") : []);
  if (!phrases.length) phrases = target.map((_, at) => ({ source_start: 0, source_end: 0, target_start: at, target_end: at + 1 }));
  shown = { source, target, phrases, attention };
  const chip = (own, number, attributes) =>
    [own.slice(0, own.search(/\S|$/u)), element("span", { "data-number": number, ...attributes }, own.trim())];
  part("translation").replaceChildren(...phrases.flatMap((each, number) => {
    const isUnknown = each.source_end - each.source_start === 1 && unknown.includes(words[each.source_start]);
    const own = target.slice(each.target_start, each.target_end).join("");
    return chip(own, number, { tabindex: 0, role: "button", class: isUnknown ? "unknown" : "" });
  }));
  if (!phrases.length) part("translation").textContent = readable(translation);
  part("source").replaceChildren(...source.flatMap((own, at) =>
    chip(own, phrases.findIndex((each) => each.source_start <= at && at < each.source_end), {})));
  part("explanation").textContent = "Point at, tap or Tab to a phrase to see where it comes from.";
}

// Mark a phrase on both sides, and the words on which the network relied, on average over its words.
function mark({ target: { dataset } }) {
  const { source = [], target, phrases = [], attention } = shown;
  const chosen = phrases[dataset.number];
  for (const each of part("result").querySelectorAll("[data-number]")) {
    each.classList.toggle("chosen", Boolean(chosen) && each.dataset.number === dataset.number);
  }
  const rows = (chosen && attention?.slice(chosen.target_start, chosen.target_end)) || [];
  const weights = source.map((_, at) => rows.reduce((sum, row) => sum + row[at] / rows.length, 0));
  [...part("source").children].forEach((each, at) => each.style.setProperty("--weight", weights[at]));
  if (!chosen) return;
  const quoted = (words, start, end) => `“${words.slice(start, end).join("").trim()}”`;
  const from = chosen.source_end ? ` translates ${quoted(source, chosen.source_start, chosen.source_end)}` : "";
  const read = weights.map((weight, at) => [weight, source[at].trim()]).filter(([weight]) => weight >= 0.1)
    .sort(([one], [other]) => other - one).map(([weight, word]) => `${word} ${Math.round(100 * weight)}%`).join(", ");
  part("explanation").textContent = `${quoted(target, chosen.target_start, chosen.target_end)}${from}.${read && ` The network looked at ${read}.`}`;
}

const example = targetLanguage ? joined(system.example).replace(/^./u, (first) => first.toUpperCase()) : system.example;
if (sourceLanguage) {
  const names = [sourceLanguage, targetLanguage].map((code) => new Intl.DisplayNames("en", { type: "language" }).of(code));
  document.title = part("title").textContent = names.join(" → ");
  [part("from").textContent, part("to").textContent] = names;
  part("text").lang = part("source").lang = sourceLanguage;
  part("translation").lang = targetLanguage;
}
part("expected").textContent = `${system.expected} One sentence per line${hasKeys ? " (Shift+Enter)" : ""}.`;
part("text").placeholder = example;
part("example").addEventListener("click", (event) => submit(event, example));
if (!example) part("example").remove();
part("file").addEventListener("change", readFile);
for (const type of ["pointerover", "focusin", "click"]) part("result").addEventListener(type, mark);
part("form").addEventListener("submit", submit);
part("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && hasKeys && !event.shiftKey && !event.isComposing) submit(event);
});
