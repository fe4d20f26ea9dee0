// The page "The GPU in front of you": measures, draws, says what came out, and gives a line for the lessons.
import { element, table } from "./asking.js";
import { chart } from "./chart.js";
import { NotMeasured, measure, open } from "./measure_gpu.js";

const form = document.getElementById("gpu");
const said = document.getElementById("gpu-said");
const doing = document.getElementById("gpu-doing");
const bar = form.querySelector("progress");
const button = form.querySelector("button");
const there = async (name) => {
  const got = await fetch(new URL(name, import.meta.url));
  if (!got.ok) throw new NotMeasured(`This copy of the site lacks ${name}.`);
  return got;
};

const LESSONS = [["01", "01_enable_gpu"], ["02", "02_check_hardware"], ["13", "13_write_a_kernel"]];
const round = (value, digits = 2) => Number(value.toPrecision(digits));
const time = (s) => (s < 1e-3 ? `${round(1e6 * s)} µs` : s < 1 ? `${round(1e3 * s)} ms` : `${round(s)} s`);
const large = (value, unit) => (value < 1e12 ? `${round(value / 1e9)} G${unit}` : `${round(value / 1e12)} T${unit}`);
const isPhone = () => matchMedia("(pointer: coarse)").matches && Math.min(screen.width, screen.height) < 600;

/** The line that lessons 01, 02 and 13 take: what was measured, and a check that all of it arrives. */
export function lineOf(found) {
  const number = (value) => String(Number(value.toPrecision(3)));
  const words = [
    "my-gpu 1",
    found.name.replace(/[;\s]+/g, " "),
    ...["trip", "dispatch", "copy", "rows", "columns", "flops"].map((key) => `${key} ${number(found[key])}`),
    `matmuls ${found.matmuls.map(({ n, trip }) => `${n}:${number(trip)}`).join(" ")}`,
  ].join("; ");
  return `${words}; ${crc32(words).toString(16).padStart(8, "0")}`;
}

function crc32(text) {
  let crc = 0xffffffff;
  for (const byte of new TextEncoder().encode(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

function sentences(found, known) {
  const { t4, core } = known;
  const ratio = found.rows / found.columns;
  const wins = found.matmuls.find(({ n, trip }) => trip < core.call + (2 * n ** 3) / core.flops);
  return [
    `On your GPU (${found.name}) this page's plain kernel multiplies matrices at ${large(found.flops, "FLOP/s")} in fp32, and tuned ones can be several times as fast. A T4, the GPU that Colab lends for free, reaches ${large(t4.fp32, "FLOP/s")} with NVIDIA's library.`,
    `It copies at ${large(found.copy, "B/s")} (a T4: ${large(t4.memory, "B/s")}). Divide the first by the second, and you have the ridge of these kernels, ${round(found.flops / found.copy)} FLOPs per byte: work that does less per byte waits for memory. Reading along columns takes ${ratio > 1.15 ? `${round(ratio)} times` : "about"} as long as along rows.`,
    `Any call takes at least ${time(found.trip)} until the page knows that it's done, since the browser passes it to another process; in a chain, a dispatch takes ${time(found.dispatch)}. ` +
      (wins ? `From about n = ${wins.n.toLocaleString("en")} on, a matmul here is done sooner than on one core of the course's own CPU.` : "No matmul of these sizes is done sooner here than on one core of the course's own CPU."),
  ];
}

function race(found, { t4, core }, width) {
  const sizes = found.matmuls.map(({ n }) => n);
  const expected = (extra) => sizes.map((n) => [n, extra + Math.max((2 * n ** 3) / t4.fp32, (12 * n ** 2) / t4.memory)]);
  return chart({
    width,
    title: "Time for one n × n matmul, from the call until it's known to be done (both axes logarithmic)",
    x: "matrix size n",
    labelY: time,
    ticksX: sizes,
    lines: [
      { name: "your GPU, through the browser", points: found.matmuls.map(({ n, trip }) => [n, trip]) },
      { name: "one CPU core, estimated", points: sizes.map((n) => [n, core.call + (2 * n ** 3) / core.flops]), dashed: true },
      { name: "a T4 through CUDA, estimated", points: expected((t4.trip[0] + t4.trip[1]) / 2), dashed: true },
    ],
  });
}

function roofline(found, { t4 }, width) {
  const intensities = [0.1, 0.3, 1, 3, 10, 30, 100, 300];
  const roof = (flops, bytes) => [...intensities, flops / bytes].sort((p, q) => p - q).map((x) => [x, Math.min(flops, x * bytes)]);
  return chart({
    width,
    title: "The roofline of these kernels: the most they can reach at each arithmetic intensity (both axes logarithmic)",
    x: "FLOPs per byte",
    labelY: (value) => large(value, "FLOP/s"),
    lines: [
      { name: "your GPU", points: roof(found.flops, found.copy), plain: true },
      { name: "a T4, measured by others", points: roof(t4.fp32, t4.memory), dashed: true, plain: true },
    ],
  });
}

function handover(found) {
  const line = `mine = "${lineOf(found)}"`;
  const box = element("textarea", { readonly: "", rows: 4, id: "gpu-line", class: "gpu-line" });
  box.value = line;
  const copy = element("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => {
    box.select();
    const done = navigator.clipboard?.writeText(line);
    copy.textContent = await (done ?? Promise.reject()).then(() => "Copied", () => "Press Ctrl+C");
  });
  const lessons = LESSONS.flatMap(([number, slug], i) => [i ? ", " : "", element("a", { href: `lessons/${slug}.html` }, number)]);
  return [
    element("p", {}, "For lessons ", ...lessons, ": paste this line into the notebook's field “mine” (or over the line that begins so), run that cell and those below, and your GPU joins the figures."),
    element("div", { class: "asking" }, element("label", { for: "gpu-line" }, "Your line: the GPU's name as your browser tells it, the numbers above, and a checksum"), box, copy),
  ];
}

function shown(found, known) {
  const width = Math.min(680, said.clientWidth);
  const clock = found.hasClock ? "Chains are timed by the GPU's own clock, single calls by the browser's." : `Timed by the browser's clock, which ticks every ${time(tick())}.`;
  return [
    ...sentences(found, known).map((text) => element("p", {}, text)),
    ...(isPhone() ? [element("p", {}, "A phone gets slower as it gets warm: let it cool, and measure twice.")] : []),
    race(found, known, width),
    roofline(found, known, width),
    element("details", {}, element("summary", {}, "All numbers"), table(
      "Single calls until they're known to be done, and dispatches in a chain",
      ["what", "measured"],
      [
        ["a call that does next to nothing", time(found.trip)],
        ["the same in a chain", time(found.dispatch)],
        ["copy, read and written", large(found.copy, "B/s")],
        ["read along rows", large(found.rows, "B/s")],
        ["read along columns", large(found.columns, "B/s")],
        ...found.matmuls.map(({ n, trip, seconds }) => [`matmul, n = ${n.toLocaleString("en")}`, `${time(trip)}, in a chain ${time(seconds)}`]),
      ],
    )),
    element("p", {}, `${clock} The matmuls agree with the CPU's to within ${found.off.toExponential(0)} of their values, as fp32 should.`),
    ...handover(found),
  ];
}

// The finest step of the browser's clock, in seconds.
function tick() {
  const start = performance.now();
  let now = start;
  while (now === start) now = performance.now();
  return (now - start) / 1000;
}

async function begin() {
  button.disabled = true;
  bar.hidden = false;
  said.replaceChildren();
  try {
    const [wgsl, known] = await Promise.all([there("gpu.wgsl").then((got) => got.text()), there("gpu.json").then((got) => got.json())]);
    const gpu = await open(wgsl);
    const found = await measure(gpu, isPhone() ? 2 ** 23 : 2 ** 25, (share, words) => {
      bar.value = share;
      doing.textContent = `${words} …`;
    });
    said.replaceChildren(...shown(found, known));
  } catch (error) {
    if (!(error instanceof NotMeasured)) console.info(error);
    said.replaceChildren(element("p", {}, error instanceof NotMeasured ? error.message : `It couldn't be measured: “${error.message}”`));
  }
  doing.textContent = "";
  bar.hidden = true;
  button.disabled = false;
  button.textContent = "Measure again";
}

document.getElementById("gpu-plain").remove();
form.hidden = false;
form.addEventListener("submit", (event) => {
  event.preventDefault();
  begin();
});
