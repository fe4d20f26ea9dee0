// The doctor's page: what does this error mean, and what in this notebook is gone?
import { addressOf, ask, element, start, startWhenIdle, waitsFor, withCode } from "./asking.js";

const LARGEST = 64 * 2 ** 20; // bytes of a file that is read
const MARKS = { stop: "fails", warn: "watch out", note: "good to know" };

let last = 0;
const form = document.getElementById("doctor");
const text = document.getElementById("doctor-text");
const place = document.getElementById("doctor-place");
const file = document.getElementById("doctor-file");
const said = document.getElementById("doctor-said");

const say = (...children) => said.replaceChildren(...children);
const paragraph = (...children) => element("p", {}, ...children);

async function link(id, words) {
  const address = await addressOf(id);
  return address ? element("a", { href: address }, ...withCode(words)) : words;
}

async function card({ id, title, meaning, fix }, also) {
  const more = [await link(id, "More about this problem, and who says so")];
  if (also) more.push(" · Also: ", await link(also.id, also.title));
  return element(
    "section",
    { class: "answer", "data-id": id },
    element("h2", {}, ...withCode(title)),
    paragraph(...withCode(meaning)),
    paragraph(element("strong", {}, "Fix: "), ...withCode(fix)),
    paragraph(...more),
  );
}

const explained = async ({ card: found, also, asking }) => [
  found ? await card(found, also) : paragraph(...withCode(asking)),
];

function judged(name, { refused, findings }) {
  if (refused) return [paragraph(element("strong", {}, name), ": ", refused)];
  if (!findings.length) return [paragraph(element("strong", {}, name), ": nothing found that is gone.")];
  const groups = new Map();
  for (const one of findings) {
    const key = `${one.severity}\n${one.fix}`;
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  const cards = [...groups.values()].map((several) =>
    element(
      "section",
      { class: "answer" },
      element("h2", {}, MARKS[several[0].severity] ?? several[0].severity),
      paragraph(...withCode(several[0].fix)),
      element("ul", {}, ...several.map((one) => element("li", {}, element("code", {}, one.observation)))),
    ),
  );
  return [paragraph(element("strong", {}, name), ": cell numbers include text cells."), ...cards];
}

async function answer(work) {
  const number = ++last;
  say(paragraph(waitsFor()));
  said.setAttribute("aria-busy", "true");
  let children;
  try {
    children = await work();
  } catch (error) {
    children = [paragraph(error.message)];
  }
  if (number !== last) return; // somebody has asked again meanwhile
  say(...children);
  said.setAttribute("aria-busy", "false");
}

const looksLikeNotebook = (pasted) => pasted.trimStart().startsWith("{") && pasted.includes('"cells"');

function explain() {
  const pasted = text.value;
  if (!pasted.trim()) return say(paragraph("Paste the error's text above: its last line, or all of it."));
  if (looksLikeNotebook(pasted)) {
    return answer(async () => judged("The notebook", await ask("notebook", pasted)));
  }
  return answer(async () => explained(await ask("error", pasted, place.value)));
}

function read(chosen) {
  if (!chosen) return;
  if (chosen.size > LARGEST) return say(paragraph(`${chosen.name} is larger than 64 MB: no notebook that somebody wrote.`));
  return answer(async () => judged(chosen.name, await ask("notebook", await chosen.text())));
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  explain();
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) explain();
});
text.addEventListener("focus", start, { once: true });
startWhenIdle();
file.addEventListener("change", () => read(file.files[0]));
file.addEventListener("click", () => (file.value = "")); // the same file again, after an edit
form.addEventListener("dragover", (event) => event.preventDefault());
form.addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  read(event.dataTransfer.files[0]);
});
document.getElementById("doctor-plain").remove();
form.hidden = false;
