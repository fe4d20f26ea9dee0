# %%
import os
import re
import time

import numpy as np

from colab_helpers import benchmark, devices, facts, figures, hardware, preflight, runtime
from colab_helpers.lessons import data, exercises, reference, replay
from colab_helpers.lessons.predictions import said

replay.watch("05_tpu_strategy")  # cells that need what is missing show recorded results
split, measured, machine = data.digits(), {}, hardware.list_devices().cpu

# %% tags=["parameters"]
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS_PER_POINT = 0.3  # time budget of one measurement
STEPS = 200  # training steps of the comparison between one device and eight
CHIP_FOR = "jax"  # who gets a TPU: "jax", or "tensorflow" (with tensorflow-tpu); one at a time

# %% [markdown]
# ## What a TPU is
#
# A field of multipliers (the *matrix unit*), fast memory beside it, and a compiler that wants to know
# every shape in advance. Its number format is bf16.

# %% tags=["nbval-check-output"]
facts.quote("tpu-tiles", "no-tensorflow-on-tpu", "one-process-a-tpu")

# %% [markdown]
# Some settings have to stand before a framework starts. You will need eight simulated CPU devices
# beside the chip, and Keras on JAX. These two lines set environment variables, nothing else.

# %%
devices.simulate_jax(8, chip=CHIP_FOR == "jax")
devices.choose_keras_backend("jax")
{name: os.environ[name] for name in ("XLA_FLAGS", "KERAS_BACKEND")}

# %% [markdown]
# How many chips have you got? Never trust a text about that, this one included. Ask the machine. (JAX calls a
# v5e "TPU v5 lite".)

# %%
# needs: jax
import jax
import jax.numpy as jnp

budget = 0.05 if FAST else SECONDS_PER_POINT
chip = jax.devices()[0]
if chip.platform != "cpu" or CHIP_FOR == "tensorflow":
    machine = hardware.list_devices().main
chips = 0 if chip.platform == "cpu" else jax.device_count()
f"{chips} chip{'' if chips == 1 else 's'} ({chip.device_kind}), {len(jax.devices('cpu'))} simulated devices"

# %% [markdown]
# ## JAX in a few lines
#
# NumPy's names, arrays that live on the chip, functions that `jit` compiles. Random numbers come from a
# *key* that you hand over, so the same key gives the same numbers.

# %%
# needs: jax
def network(x, w):
    for _ in range(8):
        x = jnp.tanh(x @ w)
    return x.sum()


compiled = jax.jit(network)
weights = jax.random.normal(jax.random.key(0), (512, 512)) / 512**0.5  # keeps sums near 1
inputs = jnp.ones((64 if FAST else 1024 if chip.platform == "cpu" else 65536, 512))
inputs.devices(), inputs.dtype, compiled(inputs, weights).shape

# %% [markdown]
# ### WRONG: stop the clock when the call returns

# %%
# needs: jax
jax.block_until_ready(compiled(inputs, weights))  # compile first
shown_by_clock = []
for _ in range(9):
    start = time.perf_counter()
    result = compiled(inputs, weights)
    shown_by_clock.append(time.perf_counter() - start)
    jax.block_until_ready(result)  # so that the next try starts idle
too_short = float(np.median(shown_by_clock))
f"{too_short * 1e6:.0f} µs"

# %% [markdown]
# ### RIGHT: wait for the result
#
# `jax.block_until_ready` waits; `benchmark.measure` calls it for you.

# %%
# needs: jax
timed = {
    "clock does not wait": too_short,
    "compiled": benchmark.measure(lambda: compiled(inputs, weights), budget=budget).median,
    "not compiled": benchmark.measure(lambda: network(inputs, weights), budget=budget).median,
}
measured["wrong_clock"] = reference.Value(timed["compiled"] / too_short, "×", "too short: no wait")
figures.bars(
    timed, unit="s", log=True,
    title=f"Without waiting, the clock shows {100 * too_short / timed['compiled']:.2g} % of the time",
)

# %% [markdown]
# Compiling gains little here: eight large products take most of the time, and they are fast either way.
#
# ## Compiled for one shape
#
# XLA, the compiler behind `jit`, compiles for exact shapes. A new shape compiles again, and you wait.
#
# **Predict.** How many times longer than later calls does the first call of a new shape take?

# %%
times_longer = None  # @param {type:"integer"}

# %%
# needs: jax
batches, first_calls, later_calls = (100, 101, 102, 103), [], []
for batch in batches:
    some = jnp.ones((batch, 512))
    start = time.perf_counter()
    compiled(some, weights).block_until_ready()
    first_calls.append(time.perf_counter() - start)
    later_calls.append(benchmark.measure(lambda: compiled(some, weights), budget=budget).median)
recompiling = np.median(first_calls) / np.median(later_calls)
measured["recompiling"] = reference.Value(recompiling, "×", "longer: the first call of a new shape")
figures.bars(
    {f"{batch} rows, {when}": seconds for batch, *both in zip(batches, first_calls, later_calls)
     for when, seconds in zip(("first", "later"), both)},
    unit="s", log=True,
    title=f"A new shape: {recompiling:.0f} times as long{said(times_longer)}",
)

# %% [markdown]
# ### WRONG: let the last batch be smaller
#
# 1,000 rows in batches of 128. Python runs the body below only while JAX traces it, so a list in the body
# counts the compilations.

# %%
# needs: jax
compilations = []


@jax.jit
def counted(x, w):
    compilations.append(x.shape)
    return network(x, w)


rows = jnp.ones((1000, 512))
for first in range(0, 1000, 128):
    counted(rows[first : first + 128], weights)
wrong = len(compilations)
measured["shapes_wrong"] = reference.Value(wrong, "", "shapes compiled: last batch smaller")
f"{wrong} shapes: {compilations}"

# %% [markdown]
# ### RIGHT: pad it, and count only the real rows
#
# Padded rows have a loss too. Multiply it by 0, and divide by the number of real rows.

# %%
# needs: jax
compilations.clear()
jax.clear_caches()  # so that 128 counts again
padding = -len(rows) % 128
padded = jnp.pad(rows, ((0, padding), (0, 0)))
real = jnp.arange(len(padded)) < len(rows)
for first in range(0, len(padded), 128):
    counted(padded[first : first + 128], weights)
right = len(compilations)
measured["shapes_right"] = reference.Value(right, "", "shapes compiled: last batch padded")
losses = jnp.mean((padded @ weights - 1) ** 2, axis=1)  # one loss a row
masked, unmasked = (losses * real).sum() / real.sum(), losses.mean()
f"{right} shape; mean loss {masked:.3f}, with the padding counted {unmasked:.3f}"

# %% [markdown]
# ## Sizes that fit the tile
#
# A matrix unit works tile by tile, and XLA pads what does not fill one. A product that is one row and
# one column larger than a tile takes more tiles. CPUs have tiles too: smaller ones.
#
# **Predict.** Which share of its speed is left at n = 129, against n = 128?

# %%
share_left = None  # @param {type:"number"}

# %%
# needs: jax
@jax.jit
def products(x, w):  # many in one call, so that handing over does not count
    return jax.lax.fori_loop(0, TURNS, lambda _, y: y @ w, x)


rows_of_x = 128 if chip.platform == "cpu" else 16384  # enough work for one call
TURNS, speeds = 100, {}
for n in (112, 120, 127, 128, 129, 136, 144):
    w = jax.random.normal(jax.random.key(n), (n, n)) / n**0.5
    x = jnp.ones((rows_of_x, n))
    seconds = benchmark.measure(lambda: products(x, w), budget=budget).median
    speeds[f"n = {n}"] = TURNS * 2 * rows_of_x * n**2 / seconds
left = speeds["n = 129"] / speeds["n = 128"]
measured["off_tile"] = reference.Value(left, "×", "of the speed at n = 128 is left at 129")
figures.bars(
    speeds, unit="FLOP/s",
    title=f"At n = 129, {left:.0%} of the speed at 128 is left{said(share_left)}",
)

# %% [markdown]
# Sizes that are multiples of a tile (for a CPU: of its vector registers) do best; how much that is on a CPU
# changes from run to run. A v5e fills 129 columns up to 256; a v6e fills 128 up to 256 too.
#
# ## bf16
#
# Half the bytes, and the format of a TPU's matrix unit. There, even the inputs of float32 products are
# rounded to bf16 first, unless you ask for more (`jax.default_matmul_precision`). A CPU without bf16 units
# imitates it, which takes longer. Digits get lost everywhere.

# %%
# needs: jax
product, formats, results = jax.jit(jnp.matmul), {}, {}
n = 256 if FAST else 1024 if chip.platform == "cpu" else 8192
for dtype in ("float32", "bfloat16"):
    a = jax.random.normal(jax.random.key(0), (n, n)).astype(dtype)
    formats[dtype] = benchmark.measure(lambda: product(a, a), budget=budget).median
    results[dtype] = product(a, a).astype("float32")
off = jnp.std(results["bfloat16"] - results["float32"]) / jnp.std(results["float32"])
longer = formats["bfloat16"] / formats["float32"]
measured["bf16"] = reference.Value(longer, "×", "the time of float32: a product in bf16")
figures.bars(
    formats, unit="s",
    title=f"bf16 takes {longer:.2f} times as long as float32 here, and is off by {off:.1%}",
)

# %% [markdown]
# ## Eight devices for everybody
#
# From here on you share work out. Several chips are rare, so XLA splits your CPU into eight devices.
# Each has a name and arrays of its own. They share your RAM and your few cores, so nothing gets faster. They
# do what eight chips do: hold parts, compute on them, exchange sums.
#
# ### WRONG: ask for them after the start
#
# JAX counts its devices once, at its start. Importing is not starting: the first `jax.devices()` is. Each
# try below runs in a process of its own, on the CPU only: one process owns a TPU.

# %%
# needs: jax
program = """
import os, jax
{first}
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
print(len(jax.devices()))
"""
late = devices.run_apart(program.format(first="jax.devices()"), XLA_FLAGS="")
f"asked for 8, got {int(late)}"

# %% [markdown]
# ### RIGHT: before

# %%
# needs: jax
early = devices.run_apart(program.format(first=""), XLA_FLAGS="")
f"asked for 8, got {int(early)}; in this notebook there are {len(jax.devices('cpu'))}"

# %% [markdown]
# A *mesh* names the axes along which devices lie. A *sharding* says how an array is laid over it, by a
# `PartitionSpec`, `P` for short: `P("data")` deals its rows out along the axis `data`, `P()` gives every
# device a copy.

# %%
# needs: jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

eight = jax.devices("cpu")
mesh = Mesh(np.array(eight), ("data",))
by_rows, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
table = jax.device_put(np.arange(64.0).reshape(16, 4), by_rows)
shards = {
    f"device {shard.device.id}": (shard.index[0].start, shard.index[0].stop)
    for shard in table.addressable_shards
}
figures.spans(shards, title=f"Each device holds {len(table) // len(eight)} of 16 rows", xlabel="row")

# %% [markdown]
# ## Train on one device and on eight
#
# The digits of lesson 03. JAX keeps no state: weights go in, new weights come out. `value_and_grad` gives
# the loss and its gradient; there is no `.backward()`.

# %%
# needs: jax
def start_weights():
    keys = jax.random.split(jax.random.key(0))
    shapes = {"in": (64, 256), "out": (256, 10)}
    return {k: jax.random.normal(key, shapes[k]) / 8 for k, key in zip(shapes, keys)}


def loss_of(weights, x, y):
    logits = jax.nn.relu(x @ weights["in"]) @ weights["out"]
    right = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1)  # the true digit's
    return -jnp.mean(right)


@jax.jit
def step(weights, x, y):
    loss, gradient = jax.value_and_grad(loss_of)(weights, x, y)
    return jax.tree.map(lambda w, g: w - 0.5 * g, weights, gradient), loss  # for each weight


# %% [markdown]
# The step does not know how many devices there are. The shardings of its inputs decide: rows on one
# device or dealt out, weights on one device or copied to all.

# %%
# needs: jax
BATCH, steps = 128, 20 if FAST else STEPS


def train(place_batch, place_weights, rows=BATCH):
    weights, losses = jax.device_put(start_weights(), place_weights), []
    for number in range(steps):
        chosen = np.random.default_rng(number).integers(len(split.x_train), size=BATCH)[:rows]
        batch = split.x_train[chosen], split.y_train[chosen]
        weights, loss = step(weights, *jax.device_put(batch, place_batch))
        losses.append(float(loss))  # waits: eight devices on few cores must not queue up steps
    return jax.device_get(weights), losses


alone, losses_alone = train(eight[0], eight[0])
shared, losses_shared = train(by_rows, everywhere)
forgetful, _ = train(eight[0], eight[0], rows=BATCH - 1)

# %%
# needs: jax
def gap_to_one_device(weights):
    return max(float(np.abs(alone[k] - w).max() / np.abs(alone[k]).max()) for k, w in weights.items())


gap, gap_forgetful = gap_to_one_device(shared), gap_to_one_device(forgetful)
measured["weights_gap"] = reference.Value(gap, "", "largest gap of a weight: eight devices and one")
measured["one_row_gap"] = reference.Value(gap_forgetful, "", "the same, with one row of 128 forgotten")
shown = range(0, steps, max(1, steps // 10))
figures.lines(
    list(shown), {"eight devices": [losses_shared[i] for i in shown]},
    ideal={"one device": [losses_alone[i] for i in shown]},
    title=f"Weights differ by {gap:.0e}; with one row forgotten they would by {gap_forgetful:.0e}",
    xlabel="step", ylabel="loss",
)

# %% [markdown]
# Not equal to the last bit: eight sums of 16 rows, added, are rounded in another order than one sum of
# 128. A float32 rounds to 2⁻²⁴, 6e-8; some hundred steps gather and amplify that. A tolerance of 1e-4, of
# the largest weight, lies between such errors and a real one.

# %%
# needs: jax
placed = jax.device_put((split.x_train[:BATCH], split.y_train[:BATCH]), by_rows)
program = step.lower(jax.device_put(start_weights(), everywhere), *placed).compile().as_text()
sums = len(re.findall(r"= .*all-reduce(?:-start)?\(", program))
verdict = "equal" if gap < 1e-4 < gap_forgetful else "DIFFERENT"
f"{verdict}; the step for {len(placed[0].sharding.device_set)} devices has {sums} all-reduce"

# %% [markdown]
# An *all-reduce* adds up something of all devices and gives the sum to each: here the loss and the
# gradients. Nobody wrote it; XLA put it in.

# %% [markdown]
# ## The same with Keras
#
# Keras 3 on JAX; `DataParallel` does what you did by hand.

# %%
# needs: jax, keras
with runtime.quiet():  # Keras looks at other frameworks too, and they talk
    import keras

    keras.utils.set_random_seed(0)
names = keras.distribution.list_devices("cpu")
keras.distribution.set_distribution(keras.distribution.DataParallel(devices=names))
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(10),
])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])

# %%
# needs: jax, keras
even = len(split.x_train) // 64 * 64  # whole batches: equally many rows for each device
x, y = split.x_train[:even], split.y_train[:even]
model.fit(x, y, batch_size=64, epochs=2 if FAST else 15, verbose=0)
accuracy = model.evaluate(split.x_test, split.y_test, batch_size=len(split.x_test), verbose=0)[1]
measured["keras"] = reference.Value(100 * accuracy, "%", "of the test digits right: Keras, 8 devices")
lives_on = len(model.weights[0].value.sharding.device_set)
with_torch = [str(record.values["digits"]) for record in reference.load("03_pytorch_on_gpu")]
f"{accuracy:.1%} right on {lives_on} devices; with PyTorch, lesson 03: {', '.join(with_torch)}"

# %% [markdown]
# ## TensorFlow: write the step once, choose the strategy
#
# Old TPU notebooks use `tf.distribute`. A *strategy* runs *replicas* of your step, each with its share of
# the rows: *global batch = rows a replica × replicas*. Which strategies does this machine offer? (TensorFlow
# gets a TPU only if you set `CHIP_FOR` above, and have `tensorflow-tpu`.)

# %%
# needs: tensorflow
if CHIP_FOR == "jax":
    os.environ["TPU_LOAD_LIBRARY"] = "0"  # TensorFlow shall not touch a TPU that JAX holds
with runtime.quiet():
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)  # full float32, on TPUs too
    tf.config.set_visible_devices([], "GPU")  # a GPU is JAX's in this notebook
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
    logical = [device.name for device in tf.config.list_logical_devices("CPU")]
tf.get_logger().setLevel("ERROR")
offered = devices.list_strategies(runtime.observe(), len(logical), CHIP_FOR == "tensorflow")
print(*offered, sep="\n")

# %%
# needs: tensorflow
def make_strategy(name):
    if name == "TPUStrategy":
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    if name == "MirroredStrategy":
        return tf.distribute.MirroredStrategy(logical)
    return tf.distribute.get_strategy()


with runtime.quiet():
    strategies = {choice.name: make_strategy(choice.name) for choice in offered}
{name: strategy.num_replicas_in_sync for name, strategy in strategies.items()}

# %% [markdown]
# `strategy.run` runs the step on all replicas, `strategy.reduce` adds up what they return. The variable adds
# up the updates that replicas bring (`SUM`), as an optimiser does. A replica sums the loss over its rows and
# divides it: by what, lesson 04 told. Here you see what happens otherwise.

# %%
# needs: tensorflow
GLOBAL = 128


def train_under(strategy, divide_by, steps):
    with strategy.scope():
        start = np.random.default_rng(0).standard_normal((64, 10)).astype("float32") / 8
        matrix = tf.Variable(start, aggregation=tf.VariableAggregation.SUM)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ matrix)
            loss = tf.reduce_sum(losses) / divide_by
        matrix.assign_sub(0.5 * tape.gradient(loss, matrix))
        return loss

    @tf.function
    def step(x, y):
        losses = strategy.run(replica_step, args=(x, y))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    examples = tf.data.Dataset.from_tensor_slices((split.x_train, split.y_train))
    batches = examples.repeat().batch(GLOBAL, drop_remainder=True).take(steps)
    with runtime.quiet():  # sharing out data makes TensorFlow talk
        losses = [float(step(*b)) for b in strategy.experimental_distribute_dataset(batches)]
    return (matrix - start).numpy(), losses


# %% [markdown]
# ### WRONG: divide by the replica's own rows
#
# **Predict.** How many times too large is the first update then?

# %%
too_large = None  # @param {type:"number"}

# %%
# needs: tensorflow
best = max(strategies.values(), key=lambda strategy: strategy.num_replicas_in_sync)
replicas = best.num_replicas_in_sync
one, _ = train_under(strategies["default"], GLOBAL, steps=1)
wrong, _ = train_under(best, GLOBAL // replicas, steps=1)
factor = np.linalg.norm(wrong) / np.linalg.norm(one)
measured["loss_wrong"] = reference.Value(factor, "×", "the right update: loss divided by own rows")
f"{factor:.2f} times the update of one device, with {replicas} replicas{said(too_large)}"

# %% [markdown]
# ### RIGHT: divide by the global batch
#
# The same function, under everything this machine offers.

# %%
# needs: tensorflow
count = 10 if FAST else 50
runs = {name: train_under(strategy, GLOBAL, count) for name, strategy in strategies.items()}
moved, _ = runs["default"]
differs = max(float(np.abs(m - moved).max() / np.abs(moved).max()) for m, _ in runs.values())
measured["strategy_gap"] = reference.Value(differs, "", "largest gap of a weight: any strategy and one device")
shown = range(0, count, count // 10)
losses = {name: [losses[i] for i in shown] for name, (_, losses) in runs.items()}
one_device = {"one device (default)": losses.pop("default")}
figures.lines(
    list(shown), losses or one_device, ideal=one_device if losses else None,
    title=f"Whatever the strategy, one curve: weights differ by {differs:.0e}",
    xlabel="step", ylabel="loss",
)

# %% [markdown]
# ## How far does it scale?
#
# Each step ends with an all-reduce of the gradient. Chips that stand in a ring, each sending to the next,
# send 2(n − 1)/n times its bytes each. Efficiency is the share of time left for work:
# step ÷ (step + all-reduce).
#
# **Predict.** A chip computes your step at the peak of a v5e, with a v5e's links to other chips. Does it scale
# better than your machine would with such links, or worse?

# %%
fast_chip_scales = None  # @param ["better", "worse"]

# %%
# needs: jax
on_chip = jax.device_put((start_weights(), split.x_train[:BATCH], split.y_train[:BATCH]), chip)
own_step = benchmark.measure(lambda: step(*on_chip), budget=budget).median
gradient_bytes = sum(w.nbytes for w in jax.tree.leaves(on_chip[0]))
row_work = sum(w.size * (4 if k == "in" else 6) for k, w in on_chip[0].items())  # FLOP a row
sheet, counts = hardware.catalogue()["v5e"], [2**k for k in range(9)]
step_seconds = {f"your step, {BATCH} rows a chip": own_step} | {
    f"at a v5e's peak, {rows:,} rows": rows * row_work / sheet.peak["bf16"]
    for rows in (BATCH, 8 * BATCH, 64 * BATCH, 512 * BATCH)
}
kept = {
    name: [devices.scaling_efficiency(n, s, gradient_bytes, sheet.links["chips"]) for n in counts]
    for name, s in step_seconds.items()
}
figures.lines(
    counts, {name: [100 * share for share in curve] for name, curve in kept.items()}, doubling=True,
    title=f"Model, not measured: a fast chip waits unless it has many rows{said(fast_chip_scales)}",
    xlabel="chips", ylabel="% of the time left for work",
)

# %% [markdown]
# The model leaves out delays, and that frameworks send while they compute; it takes all links of a chip at
# once, which a few chips in a row cannot use. Its lesson holds: more rows make
# the step longer and the gradient no larger, so the batch grows with the chips. (Formula: Patarasuk and Yuan,
# 2009. Peak and links: the data sheet.)

# %% [markdown]
# ## Old notebooks decoded
#
# | you find | it was | write today |
# |---|---|---|
# | `os.environ["COLAB_TPU_ADDR"]` | the address of a TPU elsewhere in the network | nothing: `jax.devices()` |
# | `TPUClusterResolver()` | looked an address up in `TPU_NAME` | `TPUClusterResolver(tpu="local")`, with `tensorflow-tpu` |
# | `tf.config.experimental_connect_to_cluster(…)` | connected to it | nothing: the chip is in your machine |
# | `tf.tpu.experimental.initialize_tpu_system(tpu)` | started it | the same, or nothing with JAX |
# | `tf.distribute.experimental.TPUStrategy` | an old name | `tf.distribute.TPUStrategy` |
# | `jax.tools.colab_tpu.setup_tpu()` | connected JAX to it | nothing |
# | "8 cores" | a v2-8, retired in 2025 | `len(jax.devices())` |
#
# `!colab-helpers doctor --notebook FILE` finds such lines for you. Errors can be decoded too. This one is
# real:

# %%
# needs: tensorflow
if "tensorflow-tpu" in runtime.observe().packages:
    explained = "This TensorFlow is built for TPUs: no error to show."
else:
    try:
        make_strategy("TPUStrategy")
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        print(f"{type(error).__name__}: {error}"[:140], "…")
        explained = preflight.explain_error(error)
print(explained)

# %% [markdown]
# ## Exercises
#
# ### 1 · Global batch
#
# Four replicas, 96 rows each. The learning rate 0.1 was right for a batch of 128. Give the global batch,
# and the learning rate by the linear rule: it grows like the batch.

# %% tags=["exercise"]
plan = {"global batch": ..., "learning rate": ...}
### BEGIN SOLUTION
plan = {"global batch": 4 * 96, "learning rate": 0.1 * 4 * 96 / 128}
### END SOLUTION
exercises.check("05.global_batch", plan)

# %% [markdown]
# ### 2 · Shard by hand
#
# A mesh of 4 × 2 devices has the axes `down` (4) and `across` (2). A matrix of 12 × 8 lies on it as
# `P("down", "across")`: the first name deals out its rows, the second its columns. What shape is each part?
# Which rows do the devices with index 2 along `down` hold? Give (start, stop), as in `matrix[start:stop]`.

# %% tags=["exercise"]
part = {"shape": ..., "rows": ...}
### BEGIN SOLUTION
part = {"shape": (12 // 4, 8 // 2), "rows": (6, 9)}
### END SOLUTION
exercises.check("05.shard", part)

# %% [markdown]
# ### 3 · Repair an old cell
#
# It is from 2021 and prints how many devices share the work. Translate it to JAX: a function that returns
# that number on any machine.
#
# ```
# tpu = tf.distribute.cluster_resolver.TPUClusterResolver(os.environ["COLAB_TPU_ADDR"])
# tf.config.experimental_connect_to_cluster(tpu)
# tf.tpu.experimental.initialize_tpu_system(tpu)
# strategy = tf.distribute.experimental.TPUStrategy(tpu)
# print(strategy.num_replicas_in_sync)
# ```

# %% tags=["exercise"]
def number_of_devices():
    return ...


### BEGIN SOLUTION
def number_of_devices():
    import jax

    return jax.device_count()


### END SOLUTION
exercises.check("05.repair", number_of_devices)

# %% [markdown]
# ## What you measured

# %%
reference.record("05_tpu_strategy", FAST, device=machine, **measured)

# %% [markdown]
# ## What comes next
#
# More devices help when one is too slow. When one is too *small*, you need to know where its memory goes.
