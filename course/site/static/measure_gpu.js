// Measures a GPU through WebGPU. It knows nothing of the page: gpu.js shows what comes out.

/** Why a GPU can't be measured, in words for whoever looks at the page. */
export class NotMeasured extends Error {}

const KERNELS = ["tiny", "copy", "along_rows", "along_columns", "matmul"];
const BINDINGS = ["read-only-storage", "read-only-storage", "storage", "uniform"];
const SOFTWARE = /swiftshader|llvmpipe|lavapipe|software|basic render|\bwarp\b|\bcpu\b/i;
/** Sizes of the matrices, as in lesson 01. */
export const SIZES = [16, 32, 64, 128, 256, 512, 1024, 2048];
const LEAST = 0.05; // seconds of work in a submission that is timed
const LONGEST = 0.6; // seconds for a single matmul; larger ones are left out, or a driver may step in
const MOST = 20_000; // dispatches in a submission
const PATIENCE = 20; // seconds without an answer

/** Ask for a GPU. Throws `NotMeasured` where there is none, or only one that a CPU imitates. */
export async function open(wgsl, gpu = navigator.gpu) {
  if (!gpu) {
    throw new NotMeasured(
      isSecureContext
        ? "This browser has no WebGPU, the interface through which a page reaches the GPU. Chrome and Edge have it on Windows and Macs from version 113 and on Android from 121, Safari from 26, Firefox on Windows from 141 and on Apple-silicon Macs from 145. On Linux it's still new."
        : "Browsers offer WebGPU only to pages that came over https. Open the published page.",
    );
  }
  const adapter = await soon(gpu.requestAdapter({ powerPreference: "high-performance" }));
  if (!adapter) {
    throw new NotMeasured("This browser knows WebGPU, but offers no GPU: there is none, or it doesn't trust the driver. In Chrome, the page chrome://gpu says why.");
  }
  const info = adapter.info ?? {};
  const name = [info.vendor, info.architecture, info.device, info.description].filter(Boolean).join(" ").slice(0, 60) || "unnamed GPU";
  if (info.isFallbackAdapter || adapter.isFallbackAdapter || SOFTWARE.test(name)) {
    throw new NotMeasured(`Here a program on the CPU stands in for a GPU (${name}), so there is nothing to measure. In Chrome, “Use graphics acceleration when available” in the settings may be off.`);
  }
  const features = adapter.features.has("timestamp-query") ? ["timestamp-query"] : [];
  const device = await soon(adapter.requestDevice({ requiredFeatures: features }));
  return new Gpu(device, name, wgsl, features.length > 0);
}

// What a promise brings, unless that takes too long.
function soon(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new NotMeasured(`The GPU hasn't answered for ${PATIENCE} seconds. Reload the page and try again.`)), 1000 * PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export class Gpu {
  constructor(device, name, wgsl, hasClock) {
    this.device = device;
    this.name = name;
    this.hasClock = hasClock; // a clock of its own, which a page may read
    this.trip = 0; // seconds from a submission to its answer, once that is known
    this.wrong = null;
    device.lost.then(({ message, reason }) => {
      if (reason !== "destroyed") this.wrong = `The browser lost the GPU while it was measured${message ? ` (“${message}”)` : ""}. Close what else uses it, reload the page, and try again.`;
    });
    device.addEventListener("uncapturederror", ({ error }) => (this.wrong ??= `The GPU's driver refused: “${error.message}”`));
    this.layout = device.createBindGroupLayout({
      entries: BINDINGS.map((type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })),
    });
    const layout = device.createPipelineLayout({ bindGroupLayouts: [this.layout] });
    const module = device.createShaderModule({ code: wgsl });
    this.pipelines = Object.fromEntries(KERNELS.map((entryPoint) => [entryPoint, device.createComputePipeline({ layout, compute: { module, entryPoint } })]));
    const { COPY_DST, COPY_SRC, MAP_READ, QUERY_RESOLVE } = GPUBufferUsage;
    this.answer = device.createBuffer({ size: 16, usage: COPY_DST | MAP_READ });
    if (hasClock) {
      this.queries = device.createQuerySet({ type: "timestamp", count: 2 });
      this.ticks = device.createBuffer({ size: 16, usage: QUERY_RESOLVE | COPY_SRC });
    }
  }

  /** Make the matrices: `a` and `out` of `count` numbers, a power of two, `b` for the largest matmul. */
  fill(count) {
    const { STORAGE, COPY_DST, COPY_SRC } = GPUBufferUsage;
    this.count = count;
    this.columns = 2 ** Math.floor(Math.log2(count) / 2); // of `a` as a matrix
    this.rows = count / this.columns;
    this.host = [randoms(count), randoms(Math.min(count, SIZES.at(-1) ** 2))];
    this.buffers = [count, this.host[1].length, count].map((n) => this.device.createBuffer({ size: 4 * n, usage: STORAGE | COPY_DST | COPY_SRC }));
    this.host.forEach((numbers, i) => this.device.queue.writeBuffer(this.buffers[i], 0, numbers));
  }

  bind(n) {
    const size = this.device.createBuffer({ size: 16, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
    this.device.queue.writeBuffer(size, 0, new Uint32Array([n, this.rows, this.columns, 0]));
    const entries = [...this.buffers, size].map((buffer, binding) => ({ binding, resource: { buffer } }));
    return this.device.createBindGroup({ layout: this.layout, entries });
  }

  /** Submit a kernel `times` times at once and wait; return the seconds by the GPU's clock, and by ours. */
  async run({ kernel, group, groups }, times, isClocked = this.hasClock) {
    const encoder = this.device.createCommandEncoder();
    const timestampWrites = isClocked ? { querySet: this.queries, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 } : undefined;
    const pass = encoder.beginComputePass({ timestampWrites });
    pass.setPipeline(this.pipelines[kernel]);
    pass.setBindGroup(0, group);
    for (let i = 0; i < times; i++) pass.dispatchWorkgroups(...groups);
    pass.end();
    if (isClocked) {
      encoder.resolveQuerySet(this.queries, 0, 2, this.ticks, 0);
      encoder.copyBufferToBuffer(this.ticks, 0, this.answer, 0, 16);
    } else encoder.copyBufferToBuffer(this.buffers[2], 0, this.answer, 0, 16);
    const start = performance.now();
    this.device.queue.submit([encoder.finish()]);
    const ticks = await this.read(this.answer, BigUint64Array);
    const waited = (performance.now() - start) / 1000;
    const own = isClocked ? Number(ticks[1] - ticks[0]) / 1e9 : 0;
    const rest = Math.max(waited - this.trip, waited / 10);
    const isOwn = own > rest / 3 && own < waited + 0.001; // some drivers' clocks stand still
    return { took: isOwn ? own : rest, waited, isOwn };
  }

  async read(buffer, Kind) {
    try {
      await soon(buffer.mapAsync(GPUMapMode.READ));
    } catch (error) {
      await new Promise((then) => setTimeout(then, 50)); // for the reason, if it is on its way
      throw new NotMeasured(this.wrong ?? error.message);
    }
    const read = new Kind(buffer.getMappedRange().slice(0));
    buffer.unmap();
    if (this.wrong) throw new NotMeasured(this.wrong);
    return read;
  }

  /** The first `count` numbers that a kernel wrote. */
  async written(count) {
    const size = 4 * count;
    const copy = this.device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(this.buffers[2], 0, copy, 0, size);
    this.device.queue.submit([encoder.finish()]);
    const numbers = await this.read(copy, Float32Array);
    copy.destroy();
    return numbers;
  }

  /** Seconds for one dispatch of a long chain in one submission, at the GPU's best. */
  async seconds(work) {
    await this.run(work, 1); // the warm-up
    let times = 1;
    let { took, waited, isOwn } = await this.run(work, times);
    // A browser's clock has to see much more than the trip, which Firefox rounds up to a tenth of a second.
    const enough = () => took >= (this.hasClock ? LEAST : Math.max(LEAST, 4 * this.trip)) || waited > 20 * LEAST + 5 * this.trip;
    while (!enough() && times < MOST) {
      times = Math.min(MOST, Math.max(2 * times, Math.ceil((times * LEAST * 1.2) / Math.max(took, LEAST / 16))));
      ({ took, waited, isOwn } = await this.run(work, times));
    }
    this.hasClock &&= isOwn; // said on the page
    let best = took;
    for (let i = 0; i < 8; i++) {
      ({ took } = await this.run(work, times));
      const isSteady = took > 0.98 * best; // clocks may still be rising
      best = Math.min(best, took);
      if (isSteady && i > 0) break;
    }
    return best / times;
  }

  /** Seconds from a call until the page knows that it's done: the fastest ten in a row, within `budget`. */
  async roundTrip(work, budget) {
    await this.run(work, 1, false);
    const end = performance.now() + 1000 * budget;
    let best = Infinity;
    do {
      const start = performance.now();
      for (let i = 0; i < 10; i++) await this.run(work, 1, false);
      best = Math.min(best, (performance.now() - start) / 10_000);
    } while (performance.now() < end);
    return best;
  }

  close() {
    this.device.destroy();
  }
}

/**
 * Measure everything. `count` numbers are copied; `progress` hears a share of 1 and what comes next.
 * Returns seconds, bytes/s and FLOP/s.
 */
export async function measure(gpu, count, progress = () => {}) {
  const hidden = watchTab();
  try {
    return await measureAll(gpu, count, progress, hidden);
  } finally {
    hidden.stop();
    gpu.close();
  }
}

async function measureAll(gpu, count, progress, hidden) {
  const say = async (share, words) => {
    if (hidden.was) throw new NotMeasured("This tab was in the background for a moment, where browsers hold pages back. Keep it in front, and measure again.");
    if (gpu.wrong) throw new NotMeasured(gpu.wrong);
    progress(share, words);
    await new Promise((painted) => setTimeout(painted, 30));
  };
  await say(0, "filling the memory");
  gpu.fill(count);
  const all = gpu.bind(count);
  const tiny = { kernel: "tiny", group: all, groups: [1] };
  const threads = [count / 16 / 256];

  await say(0.1, "checking a matmul against the CPU, and warming up");
  const found = { name: gpu.name, off: Math.max(await checkedMatmul(gpu, 67), await checkedMatmul(gpu, 256)) };
  gpu.trip = await gpu.roundTrip(tiny, 0.1);
  await gpu.seconds(matmul(gpu, 256));

  await say(0.2, "a single dispatch, and a chain of them");
  found.trip = gpu.trip = await gpu.roundTrip(tiny, 0.5);
  found.dispatch = await gpu.seconds(tiny);

  await say(0.25, "copying");
  found.copy = (8 * count) / (await gpu.seconds({ kernel: "copy", group: all, groups: threads }));
  checkCopy(gpu.host[0], await gpu.written(1024));

  await say(0.3, "reading along rows, and along columns");
  for (const [name, kernel] of [["rows", "along_rows"], ["columns", "along_columns"]]) {
    found[name] = (4 * count) / (await gpu.seconds({ kernel, group: all, groups: threads }));
    checkSums(gpu, name, await gpu.written(16));
  }

  found.matmuls = []; // { n, trip, seconds }
  for (const [i, n] of SIZES.entries()) {
    if (n * n > gpu.host[1].length) break;
    await say(0.35 + (0.65 * i) / SIZES.length, `matmuls of ${n} × ${n}`);
    const work = matmul(gpu, n);
    const seconds = await gpu.seconds(work);
    found.matmuls.push({ n, seconds, trip: await gpu.roundTrip(work, 0.1) });
    if (8 * seconds > LONGEST) break;
  }
  await say(1, "done");
  found.hasClock = gpu.hasClock;
  found.flops = Math.max(...found.matmuls.map(({ n, seconds }) => (2 * n ** 3) / seconds));
  return found;
}

function matmul(gpu, n) {
  const tiles = Math.ceil(n / 64);
  return { kernel: "matmul", group: gpu.bind(n), groups: [tiles, tiles] };
}

/** The largest relative error of an n x n matmul, against sums in double precision on the CPU. */
export async function checkedMatmul(gpu, n) {
  await gpu.run(matmul(gpu, n), 1);
  const out = await gpu.written(n * n);
  const [a, b] = gpu.host;
  let off = 0;
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
      off = Math.max(off, Math.abs(out[i * n + j] - sum) / sum);
    }
  if (!(off < 1e-4)) throw new NotMeasured(`A matmul of ${n} × ${n} came out wrong by ${off.toPrecision(2)} of its value, so its speed means nothing. Is the driver up to date?`);
  return off;
}

function checkCopy(from, to) {
  if (to.some((number, i) => number !== from[i])) throw new NotMeasured("The copy isn't the original, so its speed means nothing. Is the driver up to date?");
}

function checkSums(gpu, name, sums) {
  const { count, rows, columns } = gpu;
  const [a] = gpu.host;
  sums.forEach((found, thread) => {
    let sum = 0;
    for (let i = thread; i < count; i += count / 16) sum += name === "rows" ? a[i] : a[(i % rows) * columns + Math.floor(i / rows)];
    if (!(Math.abs(found / sum - 1) < 1e-4)) throw new NotMeasured(`The sums along ${name} came out wrong, so their speed means nothing. Is the driver up to date?`);
  });
}

// Numbers between 1/2 and 1, so that nothing cancels and nothing is a zero that a chip might skip.
function randoms(count) {
  const numbers = new Float32Array(count);
  for (let i = 0; i < count; i++) numbers[i] = 0.5 + Math.random() / 2;
  return numbers;
}

function watchTab() {
  const hidden = { was: document.hidden, stop: () => document.removeEventListener("visibilitychange", hear) };
  const hear = () => (hidden.was ||= document.hidden);
  document.addEventListener("visibilitychange", hear);
  return hidden;
}
