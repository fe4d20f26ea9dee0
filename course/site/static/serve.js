// The planner's other form: how fast do Colab's machines answer with a language model, and how many users?
import { ask, element, field, options, start, table, waitsFor } from "./asking.js";

const MODELS = [
  ["qwen3-8b", "Qwen3-8B"],
  ["qwen3-4b", "Qwen3-4B"],
  ["qwen3-0-6b", "Qwen3-0.6B"],
  ["llama-3-8b", "Llama 3.1 8B"],
  ["llama-2-7b", "Llama 2 7B"],
  ["mistral-7b", "Mistral 7B"],
];
const form = document.getElementById("serve");
const said = document.getElementById("serve-said");
let last = 0;

const count = (value, max) => element("input", { type: "number", min: 1, max, step: 1, required: "", value });
const gb = (bytes) => `${(bytes / 1e9).toPrecision(3)} GB`;
const rounded = (value) => Number(value.toPrecision(2));
const range = ([low, high], scale = 1) => [...new Set([rounded(low / scale), rounded(high / scale)])].join(" to ");

function row(room) {
  const users = Math.max(1, room.users);
  return [
    element("strong", {}, room.fits ? "fits" : "does not fit"),
    room.menu_name,
    String(room.max_users),
    String(room.quick),
    gb(room.weight_bytes),
    room.fits ? range(room.tokens_per_second, users) : "–",
    room.fits ? range(room.tokens_per_second) : "–",
    room.fits ? `${range(room.ttft_seconds)} s` : "–",
    room.price ? `$${range(room.price)}` : "–",
  ];
}

function shown(answer) {
  if (answer.refused) return [element("p", {}, answer.refused)];
  const head = ["verdict", "machine", "users that fit", "users at 10 tokens/s each", "weights", "tokens/s for each", "tokens/s in all", "first token", "per million tokens"];
  return [
    element("p", {}, `${(answer.parameters / 1e9).toPrecision(3)} billion weights; each conversation takes ${gb(answer.cache)} of cache at full context.`),
    table("Colab's machines, from the worst case to the best", head, answer.rooms.map(row)),
    element("p", {}, "By formula, with a CUDA graph or a compiler. ", element("a", { href: "planner.html#serving" }, "How near published speeds came"), "."),
  ];
}

async function reckon() {
  if (!form.reportValidity()) return;
  said.replaceChildren(element("p", {}, waitsFor()));
  const { model, config, context, users, bits } = form.elements;
  const asked = { config: config.value.trim() || model.value, context: context.valueAsNumber, users: users.valueAsNumber, bits: Number(bits.value) };
  const number = ++last;
  let children;
  try {
    children = shown(await ask("serve", JSON.stringify(asked)));
  } catch (error) {
    children = [element("p", {}, error.message)];
  }
  if (number === last) said.replaceChildren(...children);
}

form.append(
  field("serve", "model", "Model", element("select", {}, ...options(MODELS))),
  field("serve", "config", "Or its config.json", element("textarea", { rows: 3, placeholder: '{"num_hidden_layers": …}' })),
  field("serve", "context", "Context, tokens", count(4096, 10_000_000)),
  field("serve", "users", "Users at the same time", count(1, 1_000_000)),
  field("serve", "bits", "Bits per weight", element("select", {}, ...options([[16, "16"], [8, "8"], [4, "4"]]))),
  element("button", { type: "submit" }, "Calculate"),
);
form.hidden = false;
form.addEventListener("submit", (event) => {
  event.preventDefault();
  reckon();
});
form.addEventListener("input", () => said.replaceChildren());
form.addEventListener("focusin", start, { once: true });
