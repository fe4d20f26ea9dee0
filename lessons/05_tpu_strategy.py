# %%
# @title Imports { display-mode: "form" }
import os
import time

import numpy as np

import colab_doctor

from colab_helpers import benchmark, devices, facts, hardware, published, runtime

from colab_lessons import data, exercises, figures, reference, replay
from colab_lessons.predictions import guessed

replay.watch("05_tpu_strategy")  # cells that need what is missing show recorded results
split, machine = data.digits(), hardware.list_devices().cpu

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
LENGTHS = None
SIZES = None
SIZES_ON_CHIP = None
ROWS = None
LAYERS = None
STEPS = None
EPOCHS = None
REPLICA_STEPS = None
CHIP_FOR = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.05 if FAST else 0.3)  # time budget of one measurement
LENGTHS = LENGTHS or (6 if FAST else 50)  # sentences of different lengths
SIZES = SIZES or ([64, 128] if FAST else [64, 128, 256, 512, 1024])
SIZES_ON_CHIP = SIZES_ON_CHIP or ([64, 256] if FAST else [256, 1024, 2048, 4096, 8192])
ROWS = ROWS or [2**k for k in ((15, 20) if FAST else (17, 18, 19, 20))]  # of batches, for a TPU's compiler
LAYERS = LAYERS or (1 if FAST else 4)
STEPS = STEPS or (20 if FAST else 200)
EPOCHS = EPOCHS or (2 if FAST else 15)
REPLICA_STEPS = REPLICA_STEPS or (10 if FAST else 50)
CHIP_FOR = CHIP_FOR or "jax"  # who gets a TPU: "jax", or "tensorflow" (with tensorflow-tpu); one at a time

# %% [markdown] tags=["minutes-10"]
# ## A field of multipliers
#
# The heart of a TPU is a *systolic array*: a square field of multipliers, each of which holds one number of a weight matrix.
# The rows of your data march in from the left, one behind the other; each line of the field gets one number of a row, and each line gets it one step after
# the line above, so that it meets the sum that comes down. In each step every multiplier does three things: it
# multiplies the number that arrives by its own, adds the sum that comes from above, and passes both on, the number to the right and
# the sum downwards. Finished sums fall out at the bottom. Nobody fetches anything from memory in between, and that is the trick.
#
# Draw it for three rows and a field of 3 × 3. A colour and a number say which row a multiplier works on. Row r
# reaches the multiplier in row i and column j of the field in step r + i + j + 1, where r, i and j count from 0.
#
# **Predict.** After how many steps is the whole product done?

# %%
steps_needed = None  # @param {type:"integer"}

# %%
side, rows = 3, 3
line, column = np.indices((side, side))
beats = np.arange(rows + 2 * side - 2).reshape(-1, 1, 1)
row = beats - line - column  # which row each multiplier works on in each step
working = (row >= 0) & (row < rows)
figures.systolic(
    np.where(working, row, -1),
    title=f"{len(beats)} steps, and {working.mean():.0%} of the multipliers' time is used{guessed(steps_needed)}",
)

# %% [markdown]
# The field fills along a diagonal and drains along one, so three rows leave it idle for more than half of the time. A real TPU hides
# most of that: while the last rows drain, the next ones march in, with the next weights. What it cannot hide is the time that weights take to arrive from memory.
# In bf16 a weight has 2 bytes, and each row of your data uses it for two operations. So a product with n rows does n operations
# per byte, and lesson 02's roofline says how many a chip needs. A v5e computes 197 · 10¹² operations a second in bf16, and its memory delivers 819 · 10⁹ bytes.
#
# **Predict.** How many rows must a batch have, before a v5e computes at full speed?

# %%
rows_wanted = None  # @param {type:"integer"}

# %%
sheets = hardware.catalogue()
ridges = {name: sheets[name].ridge("bf16") for name in ("v5e", "v6e")}
counts, ridge = sorted({*(2**k for k in range(12)), *map(round, ridges.values())}), ridges["v5e"]
share = {name: [100 * min(1, n / there) for n in counts] for name, there in ridges.items()}
figures.lines(
    counts, {}, ideal={f"{name}, by its data sheet": values for name, values in share.items()}, doubling=True,
    xlabel="rows in a batch", ylabel="% of full speed, at most",
    title=f"On paper, a v5e wants {ridge:.0f} rows at once{guessed(rows_wanted)}",
)

# %% [markdown]
# Below that, the field waits for weights. (The v6e computes more than four times as fast, and its memory is only twice as fast: it wants more rows still.) So a TPU wants large batches, and sizes that fill its field. And because every number has to be in place
# when the field needs it, the compiler plans in advance which tile is loaded when. It has to know every shape for that. These three
# wishes explain most of what follows. Three facts to go with them:

# %% tags=["nbval-check-output"]
facts.quote("tpu-tiles", "no-tensorflow-on-tpu", "one-process-a-tpu")

# %%
# @title Settings that must be made before a framework starts: eight simulated devices, Keras on JAX { display-mode: "form" }
devices.simulate_jax(8, chip=CHIP_FOR == "jax")
devices.choose_keras_backend("jax")

# %% [markdown] tags=["minutes-4", "short-0"]
# ## JAX in a few lines
#
# How many chips have you got? Never trust a text about that, this one included. Ask. (JAX calls a v5e "TPU v5 lite".)

# %%
# needs: jax
import jax
import jax.numpy as jnp

with runtime.quiet():  # a TPU's library prints messages at its start
    chip = jax.devices()[0]
if chip.platform != "cpu" or CHIP_FOR == "tensorflow":
    machine = hardware.list_devices().main
chips = [device.device_kind for device in jax.devices() if device.platform != "cpu"]
f"chips: {chips or 'none'}; simulated devices on the CPU, for later: {len(jax.devices('cpu'))}"

# %% [markdown]
# JAX has NumPy's names, arrays that live on the chip, and `jax.jit`, which compiles a function. Random numbers come from a *key*
# that you hand over, so the same key gives the same numbers.

# %%
# needs: jax
def network(x, w):
    for _ in range(8):
        x = jnp.tanh(x @ w)
    return x


compiled = jax.jit(network)
weights = jax.random.normal(jax.random.key(0), (512, 512)) / 512**0.5  # keeps sums near 1
inputs = jnp.ones((1024 if chip.platform == "cpu" else 65536, 512))
compiled(inputs, weights).shape, inputs.devices()

# %% [markdown]
# ### WRONG: stop the clock when the call returns

# %%
# needs: jax
jax.block_until_ready(compiled(inputs, weights))  # it is compiled now, and idle
start = time.perf_counter()
result = compiled(inputs, weights)
too_short = time.perf_counter() - start
f"{1e6 * too_short:.0f} µs"

# %% [markdown]
# ### RIGHT: wait for the result

# %%
# needs: jax
jax.block_until_ready(result)  # what the WRONG cell left running
start = time.perf_counter()
jax.block_until_ready(compiled(inputs, weights))  # benchmark.measure does it for you
honest = time.perf_counter() - start
f"{1e6 * honest:.0f} µs: the WRONG clock showed {100 * too_short / honest:.1f} % of it"

# %% [markdown] tags=["minutes-10"]
# JAX hands work over and goes on, like PyTorch on a GPU in lesson 03, and here it does so even on a CPU.
#
# ## Compiled for one shape
#
# XLA, the compiler behind `jit`, compiles for exact shapes. A new shape compiles again, and you wait. Take sentences of many
# lengths. The body of a function runs in Python only while JAX traces it, so a list in the body counts the compilations.
#
# **Predict.** How many times longer does the first call of a new length take than a later one?

# %%
times_longer = None  # @param {type:"integer"}

# %%
# needs: jax
compilations = []


@jax.jit
def read(sentence, w):
    compilations.append(len(sentence))  # only while tracing
    return network(sentence, w).sum()


def read_all(lengths, padded_length):
    compilations.clear()
    clock, start = [], time.perf_counter()
    for length in lengths:
        sentence = np.zeros((padded_length(length), 512), "float32")
        read(sentence, weights).block_until_ready()
        clock.append(time.perf_counter() - start)
    return clock, len(compilations)


# %% [markdown]
# ### WRONG: give every sentence its own length

# %%
# needs: jax
lengths = np.random.default_rng(0).permutation(np.arange(1, 513))[:LENGTHS].tolist()
as_they_come, shapes_wrong = read_all(lengths, lambda length: length)
again, _ = read_all(lengths, lambda length: length)  # now every length is known
longer = as_they_come[-1] / again[-1]
f"{shapes_wrong} compilations; a new length takes {longer:.0f} times as long as a known one{guessed(times_longer)}"

# %% [markdown]
# ### RIGHT: pad to a few lengths
#
# Fill each sentence up to 64, 128, 256 or 512: *buckets*. Some work is wasted on padding, and four programs are enough.

# %%
# needs: jax
buckets = 64, 128, 256, 512
read.clear_cache()  # forget all programs
in_buckets, shapes_right = read_all(lengths, lambda length: next(b for b in buckets if b >= length))
gain = as_they_come[-1] / in_buckets[-1]
figures.lines(
    range(1, LENGTHS + 1), {"every length": as_they_come, "four buckets": in_buckets}, units=("", "s"),
    xlabel="sentences read", ylabel="time so far",
    title=f"{shapes_wrong} compilations or {shapes_right}: buckets are {gain:.1f} times as fast",
)

# %% [markdown]
# The upper line climbs more steeply, because every sentence waits for the compiler. The lower one compiles four
# times, within the first few sentences, and otherwise only computes. (It computes about a third more numbers, which is why it gains less than a compilation costs.) This program is tiny. On a TPU a program of real size compiles for seconds to minutes, and then the
# compiler is nearly all of the upper line.
#
# Padding must not count, though. Pad a batch of 100 rows to 128, and the 28 rows of zeros have a loss as well, here their distance from 1: multiply it by 0,
# and divide by the number of real rows.

# %%
# needs: jax
rows = jax.random.normal(jax.random.key(1), (100, 512))
padded = jnp.zeros((128, 512)).at[:100].set(rows)
losses = ((network(padded, weights) - 1) ** 2).mean(1)  # one for each row
real = jnp.arange(128) < 100
f"mean with padding {losses.mean():.3f}; of the real rows {(losses * real).sum() / real.sum():.3f}"

# %% [markdown] tags=["minutes-5", "short-4"]
# ## How fast is the field?
#
# The product of two n × n matrices in bf16, the format of a TPU's multipliers, against what others measured on a v5e, and its data
# sheet.
#
# **Predict.** What percentage of its 197 TFLOP/s does a v5e reach at n = 1,024?

# %%
per_cent_at_1024 = None  # @param {type:"number"}

# %%
# needs: jax
product = jax.jit(jnp.matmul)
sizes = SIZES if chip.platform == "cpu" else SIZES_ON_CHIP
speeds = {"float32": [], "bfloat16": []}
for n in sizes:
    for dtype, reached in speeds.items():
        a = jax.random.normal(jax.random.key(0), (n, n)).astype(dtype)
        reached.append(2 * n**3 / benchmark.measure(lambda: product(a, a), budget=SECONDS).median)

# %%
# needs: jax
sheet, v5e = hardware.catalogue()["v5e"], published.get("matmul-v5e-bf16")
reached = 100 * v5e.points[1024] / sheet.peak["bf16"]
wide = sorted({*sizes, *v5e.points})
yours = {f"{name}, {machine.short_name}": dict(zip(sizes, values)) for name, values in speeds.items()}
figures.lines(
    wide, {name: [at.get(n, float("nan")) for n in wide] for name, at in yours.items()}, doubling=True, log_y=True, units=("", "FLOP/s"),
    xlabel="matrix size n", ylabel="speed", published=[v5e],
    ideal={"v5e, data sheet, bf16": [sheet.peak["bf16"]] * len(wide)},
    title=f"One call at n = 1,024 gets {reached:.0f} % out of a v5e{guessed(per_cent_at_1024, ' %')}",
)

# %% [markdown]
# At full speed that product would take 11 µs. It took 119, most of them probably for making the call. Inside a larger compiled program that price is paid only once,
# so the field itself need not be so slow. At n = 8,192 the same
# chip reaches 92 %. If bf16 is slower than float32 on your CPU, either the CPU has no units for bf16, or XLA does not use them well, and converts every number. Where it
# does use them, bf16 may be five times as fast.
#
# And what if the field is fed in small portions? Somebody wrote the same product by hand, in blocks of 128 × 128, just what the field holds:

# %%
in_blocks = published.get("matmul-v5e-small-blocks").ratio_to(published.get("matmul-v5e-bf16"))
print(*(f"n = {n:>5}: {share:.0%} of the speed of XLA's product" for n, share in in_blocks.points.items()), sep="\n")

# %% [markdown]
# So a block that fills the field is not enough: the field needs many rows for each load of weights. Two blocks of 128 × 128 in bf16 are 65,536 bytes, for 2 · 128³ operations: 64 per byte, where a v5e wants 241. Memory
# alone would hold it to a quarter of its best, and going from block to block costs the rest. (At n = 1,024 the price of the call hides most of the difference.) XLA chooses larger blocks.
#
# What do 16 bits cost? A TPU rounds the inputs of a float32 product to bf16 as well, unless you ask for more. So the yardstick has to
# be computed with `precision="highest"`. (On a CPU float32 is not rounded, so the first line shows nothing there. On a TPU it shows about as much
# as the second.)

# %%
# needs: jax
a = jax.random.normal(jax.random.key(1), (512, 512))
yardstick = jnp.matmul(a, a, precision="highest")
for name, close in {"float32, by default": a @ a, "bfloat16": (a.astype("bfloat16") @ a.astype("bfloat16")).astype("float32")}.items():
    print(f"{name:>20}: off by {float(jnp.std(close - yardstick) / jnp.std(yardstick)):.5%}")

# %% [markdown] tags=["minutes-10"]
# ## A TPU without a TPU
#
# The compiler of a TPU runs without a TPU, on any Linux computer with an x86 processor. The package `libtpu` contains it, JAX can
# describe a chip that is not there (a *topology*), and then you compile for it. You get no result, but you get what the
# compiler knows: the memory it will need, and whether it fits. Where `libtpu` is missing, you see what it said on a reference machine.
#
# The program is a training step with Adam (without its bias correction): four blocks, each of which widens 1,024 numbers to 4,096 and back. (`jax.grad` makes a function that gives the
# gradient, and `jax.tree.map` applies a function to every array of a list.)

# %%
# needs: jax, libtpu
def loss_of_blocks(blocks, x):
    for up, down in blocks:
        x = x + jax.nn.relu(x @ up.astype("bfloat16")) @ down.astype("bfloat16")
    return (x.astype("float32") ** 2).mean()


def adam_step(blocks, mean, square, x):
    gradient = jax.grad(loss_of_blocks)(blocks, x)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)
    blocks = jax.tree.map(lambda w, m, s: w - 1e-3 * m / (s**0.5 + 1e-8), blocks, mean, square)
    return blocks, mean, square


# %%
# needs: jax, libtpu
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

with runtime.quiet():
    absent = {
        name: topologies.get_topology_desc(
            platform="tpu", topology_name=f"{name}:1x1x1", chips_per_host_bounds=(1, 1, 1)
        ).devices[0]
        for name in ("v5e", "v6e")
    }
{name: device.device_kind for name, device in absent.items()}

# %% [markdown]
# Now hand over shapes instead of data, and compile. `donate_argnums` lets new weights take the place of the old ones.

# %%
# needs: jax, libtpu
def compile_for(device, rows):
    there = SingleDeviceSharding(device)

    def shape(*sizes, dtype="float32"):
        return jax.ShapeDtypeStruct(sizes, dtype, sharding=there)

    blocks = [(shape(1024, 4096), shape(4096, 1024))] * LAYERS
    step = jax.jit(adam_step, donate_argnums=(0, 1, 2))
    return step.lower(blocks, blocks, blocks, shape(rows, 1024, dtype="bfloat16")).compile()


# %% [markdown]
# A v5e has 16 GB of *HBM*, its memory. The weights and Adam's two averages take 0.4 GB, and the gradients 0.1. Going forward, each row leaves at least 4,096 numbers of 2 bytes in each of the four
# blocks, for the way back.
#
# **Predict.** Try 131,072 rows, and keep doubling: up to how many fit?

# %%
rows_that_fit = None  # @param ["131072", "262144", "524288", "1048576"] {type:"raw"}

# %%
plans = [("v5e", rows) for rows in ROWS] + [("v6e", 2**19)]

# %%
# needs: jax, libtpu
fitting = {}
for name, rows in plans:
    try:
        with runtime.quiet():
            plan = compile_for(absent[name], rows)
        fitting[name, rows] = plan.memory_analysis().peak_memory_in_bytes
        verdict = f"{fitting[name, rows] / 1e9:.1f} GB, {plan.cost_analysis()['flops'] / rows / 1e6:,.0f} MFLOP for each row"
    except jax.errors.JaxRuntimeError as error:
        verdict = f"{error}"[:165]
    print(f"{name}, {rows:>9,} rows: {verdict}")

# %%
# needs: jax, libtpu
most = max((rows for name, rows in fitting if name == "v5e"), default=0)
f"most rows on a v5e, of those tried: {most:,}{guessed(rows_that_fit)}"

# %% [markdown]
# The compiler itself said so, in the words that you would read on the day you run out of memory (*temporaries* are intermediate results, and its G is 2³⁰ bytes). It
# knows before anything runs, because every shape is fixed. (A PyTorch program on a GPU finds out when it gets there;
# lesson 06.) Now compare the two lines with 524,288 rows: the v5e needs half the memory of the v6e (which has 32 GB), and more operations
# for each row. The compiler saw that it would not fit, and decided to throw some results away and compute them again. Try your own
# batch: change `plans` above, after `%pip install "jax[tpu]"`, which brings the compiler that goes with your JAX.
#
# The compiler also decides how numbers lie in memory: in *tiles* of 8 × 128 numbers of 32 bits (for narrow arrays 1, 2 or 4 × 128), and a tile that is not full takes the
# same room. Here is what arrays of a million rows take on a v5e, against what they contain. Before you run it: a single column, standing upright, would fill one place in 128. Does it take 128 times its size?

# %%
# needs: jax, libtpu
def times_its_size(shape):
    array = jax.ShapeDtypeStruct(shape, "float32", sharding=SingleDeviceSharding(absent["v5e"]))
    plan = jax.jit(lambda x: 2 * x).lower(array).compile().memory_analysis()
    return plan.argument_size_in_bytes / (4 * array.size)


with runtime.quiet():
    taken = {columns: times_its_size((2**20, columns)) for columns in (128, 1, 3, 9)}
print(*(f"{columns:>4} columns: {ratio:.2f} times its numbers" for columns, ratio in taken.items()), sep="\n")

# %% [markdown] tags=["minutes-8", "short-4"]
# No: the compiler turns the column on its side. Lying down, three columns take a tile of
# four lines, and nine take two tiles of eight. Multiples of 8 and of 128 waste nothing.
#
# ## Eight devices for everybody
#
# From here on you share work out. XLA can split your CPU into eight devices, each with a name and arrays of its own. They
# share your cores, so nothing gets faster. But they do what eight chips do: hold parts, compute on them, exchange sums.
#
# ### WRONG: ask for them after the start
#
# JAX counts its devices once, when you first use one. (Each try runs in a process of its own.)

# %%
# needs: jax
late = """
import jax
jax.devices()
try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError as error:
    print(error)
"""
devices.run_in_subprocess(late, XLA_FLAGS="")

# %% [markdown]
# ### RIGHT: before

# %%
# needs: jax
early = """
import jax
jax.config.update("jax_num_cpu_devices", 8)
print(jax.devices())
"""
devices.run_in_subprocess(early, XLA_FLAGS="")

# %% [markdown]
# A *mesh* gives names to the axes along which devices lie. A *sharding* says how an array is laid over it, by a `PartitionSpec`, `P` for
# short, which has an entry for each dimension (those left out at the end stay whole): `P("data")` deals the rows out along the axis `data`, `P(None, "model")` leaves the rows whole and deals the columns out, and `P()`
# gives every device a copy.

# %%
# needs: jax
P, Named = jax.P, jax.sharding.NamedSharding
eight = jax.devices("cpu")
auto = jax.sharding.AxisType.Auto  # XLA decides what you leave open
mesh = jax.make_mesh((8,), ("data",), axis_types=(auto,), devices=eight)
by_rows, everywhere = Named(mesh, P("data")), Named(mesh, P())
table = jax.device_put(np.arange(64.0).reshape(16, 4), by_rows)
jax.debug.visualize_array_sharding(table)

# %% [markdown]
# Two rows each. With two axes you can also split the columns. That is one way to train models whose weights do not fit on one chip:
# the batch goes along `data`, and each weight along `model`. (Another deals each weight out along `data` as well, and fetches its parts when they are needed: *FSDP*.)

# %%
# needs: jax
grid = jax.make_mesh((4, 2), ("data", "model"), axis_types=(auto, auto), devices=eight)
x = jax.device_put(np.ones((8, 16), "float32"), Named(grid, P("data")))
w = jax.device_put(np.ones((16, 16), "float32"), Named(grid, P(None, "model")))
y = jax.jit(jnp.matmul)(x, w)
print(f"one device holds {w.addressable_shards[0].data.nbytes / w.nbytes:.0%} of the weight; the product is laid out {y.sharding.spec}")
jax.debug.visualize_array_sharding(y)

# %% [markdown] tags=["minutes-8", "short-5"]
# Nobody told JAX how to lay out `y`. It follows from its inputs, and so does the communication (this product needs none).
#
# ## Train on one device and on eight
#
# The digits of lesson 03. JAX keeps no state: weights go in, new weights come out. `value_and_grad` gives the loss and its gradient; there
# is no `.backward()`.

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
def train_step(weights, x, y):
    loss, gradient = jax.value_and_grad(loss_of)(weights, x, y)
    return jax.tree.map(lambda w, g: w - 0.5 * g, weights, gradient), loss  # for each weight


# %% [markdown]
# The step does not know how many devices there are. **Where its inputs lie decides**: rows on one device or dealt out, weights on one
# device or copied to all.

# %%
# needs: jax
BATCH = 128


def train(place_batch, place_weights, rows=BATCH):
    weights, losses = jax.device_put(start_weights(), place_weights), []
    for number in range(STEPS):
        chosen = np.random.default_rng(number).integers(len(split.x_train), size=BATCH)[:rows]
        batch = split.x_train[chosen], split.y_train[chosen]
        weights, loss = train_step(weights, *jax.device_put(batch, place_batch))
        losses.append(float(loss))  # waits: eight devices on few cores must not queue up steps
    return jax.device_get(weights), losses


# %%
# needs: jax
alone, losses_alone = train(eight[0], eight[0])
shared, losses_shared = train(by_rows, everywhere)
forgetful, _ = train(eight[0], eight[0], rows=BATCH - 1)  # one row of 128 forgotten
on_chip, losses_on_chip = train(chip, chip)
f"loss after {STEPS} steps: {losses_alone[-1]:.4f} on one device, {losses_shared[-1]:.4f} on eight, {losses_on_chip[-1]:.4f} on {chip.device_kind}"

# %%
# needs: jax
def gap_to_one_device(weights):
    return max(float(np.abs(alone[k] - w).max() / np.abs(alone[k]).max()) for k, w in weights.items())


gap, gap_forgetful = gap_to_one_device(shared), gap_to_one_device(forgetful)
verdict = "equal" if gap < 1e-4 < gap_forgetful else "DIFFERENT"
f"{verdict}: weights differ by {gap:.0e}; with one row of {BATCH} forgotten, by {gap_forgetful:.0e}"

# %% [markdown]
# Not equal to the last bit: eight sums of 16 rows, added up, are rounded in another order than one sum of 128. But more than ten thousand times
# closer than a mistake in a single row would leave them. A tolerance belongs between the two. And how did eight devices agree on one gradient? Read the compiled program:

# %%
# needs: jax
placed = jax.device_put((split.x_train[:BATCH], split.y_train[:BATCH]), by_rows)
program = train_step.lower(jax.device_put(start_weights(), everywhere), *placed).compile().as_text()
all_reduces = [text.strip() for text in program.splitlines() if " all-reduce(" in text or " all-reduce-start(" in text]
print(*(text.partition(", channel_id")[0] for text in all_reduces), sep="\n")

# %% [markdown] tags=["minutes-3", "short-0"]
# That line is an *all-reduce*. It adds up something of all devices and gives the sum to each: here both
# gradients (which XLA has transposed) and the loss. You did not write it. XLA put it in, because the mean in your loss runs over rows that lie on different devices.
#
# ## The same with Keras
#
# Keras 3 runs on JAX, and `DataParallel` does what you just did by hand.

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
even = len(split.x_train) // 64 * 64  # whole batches
model.fit(split.x_train[:even], split.y_train[:even], batch_size=64, epochs=EPOCHS, verbose=0)
accuracy = model.evaluate(split.x_test, split.y_test, batch_size=len(split.x_test), verbose=0)[1]
f"{accuracy:.1%} of the test digits right, on {len(model.weights[0].value.sharding.device_set)} devices"

# %% [markdown] tags=["minutes-4", "short-0"]
# ## TensorFlow: write the step once, choose the strategy
#
# Old TPU notebooks use `tf.distribute`. A *strategy* runs *replicas* of your step, each with its share of the rows: *global
# batch = rows per replica × replicas*. TensorFlow gets a TPU only if you set `CHIP_FOR` above, and have `tensorflow-tpu`; otherwise it
# gets four simulated CPU devices.

# %%
# @title Start TensorFlow, quietly, with four devices { display-mode: "form" }
# needs: tensorflow
if CHIP_FOR == "jax":
    os.environ["TPU_LOAD_LIBRARY"] = "0"  # TensorFlow must not touch a TPU that JAX holds
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
# `strategy.run` runs the step on all replicas; their updates to the variable are added up (`SUM`). Each replica sums the loss over its own
# rows and divides. By what? That is the mistake of many a notebook.

# %%
# needs: tensorflow
GLOBAL = 128
first_weights = np.random.default_rng(0).standard_normal((64, 10)).astype("float32") / 8


def make_step(strategy, divide_by):
    with strategy.scope():
        matrix = tf.Variable(first_weights, aggregation=tf.VariableAggregation.SUM)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ matrix)
            loss = tf.reduce_sum(losses) / divide_by
        matrix.assign_sub(0.5 * tape.gradient(loss, matrix))

    return matrix, tf.function(lambda x, y: strategy.run(replica_step, args=(x, y)))


# %%
# needs: tensorflow
def train_under(strategy, divide_by, steps):
    matrix, step = make_step(strategy, divide_by)
    examples = tf.data.Dataset.from_tensor_slices((split.x_train, split.y_train))
    batches = examples.repeat().batch(GLOBAL, drop_remainder=True).take(steps)
    with runtime.quiet():  # TensorFlow comments on how it shares out data
        for batch in strategy.experimental_distribute_dataset(batches):
            step(*batch)
    return (matrix - first_weights).numpy()


# %% [markdown]
# ### WRONG: divide by the replica's own rows
#
# **Predict.** The number of replicas stands above. If each of them divides its loss by its own rows, how many times too large is the first update?

# %%
too_large = None  # @param {type:"number"}

# %%
# needs: tensorflow
best = max(strategies.values(), key=lambda strategy: strategy.num_replicas_in_sync)
replicas = best.num_replicas_in_sync
one = train_under(strategies["default"], GLOBAL, steps=1)
wrong = train_under(best, GLOBAL // replicas, steps=1)
factor = float(np.linalg.norm(wrong) / np.linalg.norm(one))
f"{factor:.2f} times the update of one device, with {replicas} replicas{guessed(too_large)}"

# %% [markdown]
# ### RIGHT: divide by the global batch

# %%
# needs: tensorflow
moved = {name: train_under(strategy, GLOBAL, REPLICA_STEPS) for name, strategy in strategies.items()}
largest = np.abs(moved["default"]).max()
differs = max(float(np.abs(m - moved["default"]).max() / largest) for m in moved.values())
f"{' and '.join(moved)}: after {REPLICA_STEPS} steps the weights differ by {differs:.0e}"

# %% [markdown] tags=["minutes-4", "short-0"]
# ## How far does it scale?
#
# Every step ends with an all-reduce. In a ring each chip sends 2(n − 1)/n times the gradient's bytes, in 2(n − 1) messages. (A v5e has four links,
# 200 GB/s together, and we assume that all four are busy.) Take a model of half a billion parameters, whose gradient has 1 GB in bf16, on chips as fast and as well connected as
# a v5e. Training it takes six operations for each parameter and token, two forward and four backward; 1,000 tokens are 15 ms of work at the data sheet's speed. Sending 1 GB once takes 5 ms. The share left for work is work / (work + sending). This is a model, not a measurement.
#
# **Predict.** 256 chips, 1,000 tokens each: what percentage of their time is left for work?

# %%
per_cent_left = None  # @param {type:"number"}

# %%
parameters, message = 5e8, 1e-6  # seconds for each message on its way
sheet, chips = hardware.catalogue()["v5e"], [2**k for k in range(9)]
shares = {}
for tokens in (1_000, 10_000, 100_000):
    step_time = 6 * parameters * tokens / sheet.peak["bf16"]
    shares[f"{tokens:,} tokens per chip"] = [
        100 * devices.scaling_efficiency(n, step_time, 2 * parameters, sheet.links["chips"], message) for n in chips
    ]
    print(f"{tokens:>7,} tokens: {1000 * step_time:,.0f} ms of work a step")
print(f"sending: {1000 * devices.all_reduce_seconds(256, 2 * parameters, sheet.links['chips'], message):.0f} ms with 256 chips")
left = shares["1,000 tokens per chip"][-1]
figures.lines(
    chips, shares, doubling=True, xlabel="chips", ylabel="% of the time left for work",
    title=f"With 1,000 tokens each, 256 chips work {left:.0f} % of the time{guessed(per_cent_left, ' %')}",
)

# %% [markdown] tags=["minutes-1", "short-0"]
# Two chips have to send the gradient once. From there it only grows to twice the gradient, however
# many chips there are, and so the curves level off. What helps is more work for each chip and step. (A batch of fixed size, dealt out to more and more chips, does the opposite.) Two things the model gets wrong: with only a few chips
# not all four links have somebody at the other end, so the left of the picture flatters; and frameworks send
# while they still compute, so the right of it is too dark. (Formula: Patarasuk and Yuan, 2009. Peak and links: the data sheet.)
#
# ## What about PyTorch?
#
# PyTorch reaches TPUs through *PyTorch/XLA* (`torch_xla`): the model moves to an `xla` device, operations are collected
# instead of run, and compiled at `torch_xla.sync()`. Colab's TPU machine has it installed (2.9, in July 2026), built
# for exactly the PyTorch version beside it: upgrade one alone, and `torch_xla` no longer loads. What you learned here holds there too: new shapes compile again, and a `print(loss)`
# in each step waits. Since April 2026 its README has said that *TorchTPU* will replace it, so start nothing large on it.

# %% [markdown] tags=["minutes-2", "short-0"]
# ## Old notebooks decoded
#
# | you find | it was | write today |
# |---|---|---|
# | `os.environ["COLAB_TPU_ADDR"]` | the address of a TPU elsewhere in the network | nothing: `jax.devices()` |
# | `TPUClusterResolver()` | looked an address up in `TPU_NAME` | on Colab JAX, or Keras on JAX; elsewhere `TPUClusterResolver(tpu="local")`, with `tensorflow-tpu` |
# | `tf.config.experimental_connect_to_cluster(…)` | connected to it | nothing: the chip is in your machine |
# | `tf.tpu.experimental.initialize_tpu_system(tpu)` | started it | the same, or nothing with JAX |
# | `tf.distribute.experimental.TPUStrategy` | an old name | `tf.distribute.TPUStrategy` |
# | `jax.tools.colab_tpu.setup_tpu()` | connected JAX to it | nothing |
# | "8 cores" | a v2-8, retired in 2025 | `len(jax.devices())` |
#
# `!colab-doctor --notebook FILE` finds such lines for you. Errors can be decoded too. This one is real:

# %%
# needs: tensorflow
if "tensorflow-tpu" in runtime.observe().packages:
    explained = "This TensorFlow is built for TPUs: no error to show."
else:
    try:
        make_strategy("TPUStrategy")
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        print(f"{type(error).__name__}: {error}"[:140], "…")
        explained = colab_doctor.explain_error(error)
print(explained)

# %% [markdown] tags=["minutes-4", "short-0"]
# ## Exercises
#
# ### 1 · Global batch
#
# Four replicas, 96 rows each. The learning rate 0.1 was right for a batch of 128. Give the global batch,
# and the learning rate by the linear rule: it grows in proportion to the batch.

# %% tags=["exercise"]
plan = {"global batch": ..., "learning rate": ...}
### BEGIN SOLUTION
plan = {"global batch": 4 * 96, "learning rate": 0.1 * 4 * 96 / 128}  # three times the batch, three times the rate
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
part = {"shape": (12 // 4, 8 // 2), "rows": (6, 9)}  # index 0 has rows 0 to 2, index 1 rows 3 to 5
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

    return jax.device_count()  # no address and no connection: the chip is in your machine


### END SOLUTION
exercises.check("05.repair", number_of_devices)

# %% [markdown]
# ### 4 · Open task: few programs, little padding
#
# Write `padded(length)`, which says to what length a sentence of 1 to 1,024 words is filled up. The check sends each length
# through it and counts: at most eight different results, and at most a quarter more words in total, over all 1,024 lengths. (Doubling, as above, would
# add a third.)

# %% tags=["exercise"]
def padded(length):
    return ...


### BEGIN SOLUTION
def padded(length):
    return -(-length // 128) * 128  # the next multiple of 128: eight programs, 12 % padding


### END SOLUTION
exercises.check("05.buckets", padded)

# %% [markdown] tags=["minutes-2"]
# ## Three things to take away

# %%
# needs: jax
takeaways = {
    "Keep shapes few": f"{shapes_wrong} lengths compiled {shapes_wrong} times; four buckets were {gain:.1f} times as fast.",
    "Ask the compiler": "it knows a TPU's memory before anything runs, and needs no TPU.",
    "Devices are an argument": f"the same step on eight devices gave the same weights, to within {gap:.0e}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Put predictions beside results { display-mode: "form" }
guess = reference.Prediction
predicted = {
    "steps_needed": guess(steps_needed, len(beats)),
    "rows_wanted": guess(rows_wanted, sheets["v5e"].ridge("bf16")),
    "per_cent_left": guess(per_cent_left, left, "%"),
}
if "jax" in globals():
    predicted["times_longer"] = guess(times_longer, longer, "×")
    predicted["per_cent_at_1024"] = guess(per_cent_at_1024, reached, "%")
if "fitting" in globals():
    predicted["rows_that_fit"] = guess(rows_that_fit, most)
if "tf" in globals():
    predicted["too_large"] = guess(too_large, factor, "×")

# %%
# @title Keep them as a record { display-mode: "form" }
value, seen = reference.Value, globals()
measured = {} if "jax" not in seen else {
    "wrong_clock": value(honest / too_short, "×", "too short: the time of a clock that does not wait"),
    "recompiling": value(longer, "×", "time of sentences of new lengths, known ones being 1"),
    "shapes_wrong": value(shapes_wrong, "", f"compilations for {LENGTHS} sentences, each with its own length"),
    "shapes_right": value(shapes_right, "", "compilations for the same sentences in four buckets"),
    "buckets": value(gain, "×", "speed of four buckets, a program for every length being 1"),
    "weights_gap": value(gap, "", "largest gap of a weight: eight devices and one"),
    "one_row_gap": value(gap_forgetful, "", "the same, with one row of 128 forgotten"),
    "all_reduces": value(len(all_reduces), "", "all-reduces in a training step for eight devices"),
}
measured |= {"rows_v5e": value(most, "", "rows fit on a v5e, says its compiler, of those tried")} if "fitting" in seen else {}
if "keras" in seen and "jax" in seen:
    measured["keras"] = value(100 * accuracy, "%", "of the test digits right: Keras, 8 devices")
if "tf" in seen:
    measured["loss_wrong"] = value(factor, "×", "size of an update whose loss is divided by a replica's own rows")
    measured["strategy_gap"] = value(differs, "", "largest gap of a weight: any strategy and one device")
reference.record("05_tpu_strategy", FAST, device=machine, predicted=predicted, **measured)

# %% [markdown] tags=["minutes-0"]
# ## What comes next
#
# More devices help when one is too slow. When one is too *small*, you need to know where its memory goes.
