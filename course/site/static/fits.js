// The planner's page: which of Colab's machines does a transformer of these sizes fit?
import { ask, element, field, options, start, startWhenIdle, table, waitsFor } from "./asking.js";

// Name, words, first value, and the most that anybody has trained, with room.
const SIZES = [
  ["n_layer", "Layers", 12, 1_000],
  ["n_embd", "Width", 768, 100_000],
  ["n_head", "Heads", 12, 1_000],
  ["block_size", "Context, tokens", 1024, 10_000_000],
  ["vocab_size", "Vocabulary", 50257, 10_000_000],
  ["batch_size", "Batch size", 8, 100_000],
];
const CHOICES = [
  ["number_format", "Format", [["mixed", "mixed: autocast, weights in fp32"], ["fp32", "fp32"], ["half", "bf16 or fp16 throughout"]]],
  ["optimizer", "Optimizer", [["adamw", "AdamW"], ["momentum", "SGD with momentum"], ["sgd", "SGD"]]],
];
const KNOWN = [
  ["The course's GPT, 11 M", [6, 384, 6, 256, 96, 32]],
  ["GPT-2, 124 M", [12, 768, 12, 1024, 50257, 8]],
  ["GPT-2 XL's size, 1.6 B", [48, 1600, 25, 1024, 50257, 1]],
  ["1.3 B", [24, 2048, 16, 2048, 50257, 1]],
  ["6.6 B", [32, 4096, 32, 2048, 32000, 1]],
];

let last = 0;
const form = document.getElementById("fits");
const said = document.getElementById("fits-said");
const gib = (bytes) => `${(bytes / 2 ** 30).toFixed(1)}\u00a0GiB`;
const million = (count) => (count < 1e9 ? `${(count / 1e6).toPrecision(3)} million` : `${(count / 1e9).toPrecision(3)} billion`);
const time = (seconds) => (seconds < 1 ? `${Number((1000 * seconds).toPrecision(2))} ms` : `${Number(seconds.toPrecision(2))} s`);
const OPTIMIZERS = { adamw: "AdamW", momentum: "SGD with momentum", sgd: "SGD" };
function price(room) {
  const units = room.units_per_hour === null ? "unknown" : `${room.units_per_hour} units per hour`;
  return room.free ? `free; with a subscription ${units}` : units;
}

// What to change so that it fits, in words: only what differs from what was asked.
function ways(room, asked) {
  const words = room.ways.map((way) =>
    [
      way.batch_size === asked.batch_size ? "" : way.batch_size === 1 ? "a batch of 1" : `a batch of ${way.batch_size}`,
      way.checkpointing === asked.checkpointing ? "" : "checkpointing",
      way.optimizer === asked.optimizer ? "" : OPTIMIZERS[way.optimizer],
    ].filter(Boolean).join(" and "),
  );
  return words.length ? `would fit with ${words.join(", or with ")}` : "";
}
const percent = (part) => `${Math.round(100 * part)}%`;

function build() {
  const known = element("select", {}, ...options([["", "sizes of my own"], ...KNOWN.map(([name], i) => [i, name])]));
  known.addEventListener("change", () => {
    const sizes = KNOWN[known.value]?.[1];
    sizes?.forEach((size, i) => (form.elements[SIZES[i][0]].value = size));
    if (sizes) reckon();
  });
  form.append(
    field("fits", "known", "Start from", known),
    ...SIZES.map(([name, words, value, max]) =>
      field("fits", name, words, element("input", { type: "number", min: 1, max, step: 1, required: "", value })),
    ),
    ...CHOICES.map(([name, words, rows]) => field("fits", name, words, element("select", {}, ...options(rows)))),
    field("fits", "checkpointing", "Activation checkpointing", element("input", { type: "checkbox" })),
    element("button", { type: "submit" }, "Calculate"),
  );
  form.hidden = false;
}

function given() {
  const sizes = Object.fromEntries(SIZES.map(([name]) => [name, form.elements[name].valueAsNumber]));
  const choices = Object.fromEntries(CHOICES.map(([name]) => [name, form.elements[name].value]));
  return { ...sizes, ...choices, checkpointing: form.elements.checkpointing.checked };
}

function shown(answer, asked) {
  if (answer.refused) return [element("p", {}, answer.refused)];
  const why = `A step with ${million(answer.parameters)} parameters needs ${gib(answer.peak)} at its worst moment: ${answer.worst}.`;
  const rooms = answer.rooms.map((room) => [
    element("strong", {}, room.verdict),
    room.menu_name,
    gib(room.step_bytes),
    gib(room.capacity_bytes),
    String(room.largest_batch),
    time(room.seconds),
    price(room),
    [room.note, ways(room, asked)].filter(Boolean).join("; "),
  ]);
  const parts = Object.entries(answer.alive).map(([name, bytes]) => [name, gib(bytes), percent(bytes / answer.peak)]);
  return [
    element("p", {}, why),
    ...(asked.number_format === "half"
      ? [element("p", {}, "Careful: training with all numbers in 16 bits saves memory, and often does not learn; in fp16, AdamW fails outright. ", element("a", { href: "lessons/07_mixed_precision.html" }, "Lesson 07 shows why"), ".")]
      : []),
    table(
      "Colab's machines; the largest batch leaves 10% to spare",
      ["verdict", "machine", "needs", "has", "largest batch", "a step, at least", "price", "note"],
      rooms,
    ),
    table("What is alive at that moment", ["part", "bytes", "of the peak"], parts),
    element(
      "p",
      {},
      `How good is that? For every network that was traced on a CPU, the formulas came within ${(100 * answer.most_off).toFixed(1)}% of its peak; a test ` +
        "checks that. A GPU differs a little: keep the logits in a variable, in fp32 or in 16 bits throughout, and the loss takes one more table, up to an eighth of the whole. " +
        "Machines add what CUDA and its libraries need; pieces between tensors come on top, so “tight” may well run out. “At least” is how long it would take at the speed of large matmuls on this chip, which no training reaches: ",
      element("a", { href: "planner.html" }, "how much longer published runs took"),
      ".",
    ),
  ];
}

// An answer never stands beside numbers that it isn't about.
function forget(words) {
  last++;
  said.replaceChildren(element("p", {}, words));
  said.setAttribute("aria-busy", "false");
}

async function reckon() {
  if (!form.reportValidity()) return forget("One of the numbers can't be: see above.");
  said.replaceChildren(element("p", {}, waitsFor()));
  said.setAttribute("aria-busy", "true");
  const asked = given();
  const number = ++last;
  let children;
  try {
    children = shown(await ask("fits", JSON.stringify(asked)), asked);
  } catch (error) {
    children = [element("p", {}, error.message)];
  }
  if (number !== last) return; // somebody has asked again meanwhile
  said.replaceChildren(...children);
  said.setAttribute("aria-busy", "false");
}

document.getElementById("fits-plain").remove();
build();
form.addEventListener("submit", (event) => {
  event.preventDefault();
  reckon();
});
form.addEventListener("input", ({ target }) => {
  const known = form.elements.known;
  if (target === known && known.value) return; // its sizes are reckoned at once
  if (SIZES.some(([name]) => name === target.name)) known.value = "";
  if (said.children.length) forget("Changed since the last answer: calculate again.");
});
form.addEventListener("focusin", start, { once: true });
startWhenIdle();
