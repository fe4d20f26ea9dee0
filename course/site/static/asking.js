// How a page asks Python, and shows what it is told: always as text, never as HTML.
const LONGEST = 60_000; // milliseconds, once Python is there; a text that takes longer is given up
const root = new URL("..", import.meta.url);

let worker = null;
let isReady = false;
let last = 0;
const waiting = new Map();

export function start() {
  if (worker) return;
  worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  worker.onmessage = ({ data }) => {
    if (data.ready) begin();
    else if (data.fatal) stop(data.problem); // whatever comes next gets a Python of its own
    else settle(data.id, data);
  };
  worker.onerror = () => stop("Python did not start: this copy of the site may lack it.");
}

// Python takes 10 MB, once: it comes when the page has nothing else to do, but not where bytes are dear.
export function startWhenIdle() {
  if (navigator.connection?.saveData) return;
  (window.requestIdleCallback ?? ((then) => setTimeout(then, 1000)))(start);
}

// What somebody who asks now waits for, in words.
export function waitsFor() {
  return isReady ? "One moment …" : "Loading Python, once: some seconds, on a slow line up to a minute …";
}

export function ask(question, ...given) {
  start();
  const id = ++last;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject, clock: isReady ? clock() : null });
    worker.postMessage({ id, question, given });
  });
}

function clock() {
  return setTimeout(() => stop("This took more than a minute, and was given up."), LONGEST);
}

function begin() {
  isReady = true;
  for (const one of waiting.values()) one.clock ??= clock();
}

function settle(id, { answer, problem }) {
  const one = waiting.get(id);
  if (!one) return;
  waiting.delete(id);
  clearTimeout(one.clock);
  if (problem) one.reject(new Error(problem));
  else one.resolve(answer);
}

function stop(why) {
  worker?.terminate();
  worker = null;
  isReady = false;
  for (const id of [...waiting.keys()]) settle(id, { problem: why });
}

// An element with children: strings become text nodes.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A labeled field of the form `form`.
export function field(form, name, words, input) {
  input.id = `${form}-${name}`;
  input.name = name;
  return element("div", { class: "field" }, element("label", { for: input.id }, words), input);
}

export function options(rows) {
  return rows.map(([value, words]) => element("option", { value }, words));
}

// Text in which single backticks mark code.
export function withCode(text) {
  return text.split(/(`[^`\n]+`)/).map((part) =>
    /^`[^`\n]+`$/.test(part) ? element("code", {}, part.slice(1, -1)) : part,
  );
}

let addresses = null;
export async function addressOf(id) {
  try {
    addresses ??= await (await fetch(new URL("_static/addresses.json", root))).json();
  } catch {
    return null; // an answer without its link is an answer
  }
  return addresses[id] ? new URL(addresses[id], root).href : null;
}

// A table that scrolls by itself where the window is narrow.
export function table(caption, head, rows) {
  const cells = (name, texts) => texts.map((text) => element(name, name === "th" ? { scope: "col" } : {}, text));
  return element(
    "div",
    { class: "pst-scrollable-table-container", tabindex: "0", role: "region", "aria-label": caption },
    element(
      "table",
      { class: "table" },
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...cells("th", head))),
      element("tbody", {}, ...rows.map((texts) => element("tr", {}, ...cells("td", texts)))),
    ),
  );
}
