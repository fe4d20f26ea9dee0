# %%
# @title Imports { display-mode: "form" }
import os
import re
import time

import numpy as np
from sklearn.datasets import load_digits

from colab_helpers import benchmark, simulated_devices, hardware, published_results, runtime

from colab_lessons import data, exercises, figures, measurements, recorded_outputs
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

recorded_outputs.watch("05_tpu_strategy")  # where JAX or a TPU's compiler is missing, a recorded output appears
sheet = hardware.catalog()["v5e"]
simulated_devices.simulate_jax(8)  # eight devices on the CPU, for later; it must be said before JAX starts

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
LENGTHS = None
TOKENS = None
CHIPS = None
STEPS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.05 if FAST else 0.5)  # time budget of one measurement
LENGTHS = LENGTHS or (6 if FAST else 12)  # of sentences
TOKENS = TOKENS or [2**k for k in ((17, 20) if FAST else (17, 18, 19, 20))]  # in a batch, for a TPU's compiler
CHIPS = CHIPS or ((1, 8) if FAST else (1, 2, 4, 8))  # that don't exist
STEPS = STEPS or (20 if FAST else 200)  # of training

# %% [markdown] tags=["minutes-8"]
# ## An array of multipliers
#
# A TPU is built around one idea, the *systolic array*. It's a square of multipliers, and each of them holds one weight.
#
# A row of your data enters from the left. In each step a multiplier multiplies the number that arrives by its weight, adds the sum that comes from
# above, and passes both on: the number to the right, the sum down. Each line of the array starts one step after the line above it, so its number
# arrives together with the sum. Finished sums fall out at the bottom. Nothing is fetched from memory in between.

# %%
# @title Draw three rows of data in an array of 2 × 2 { display-mode: "form" }
three_rows, weights = np.array([[1, 2], [3, 1], [2, 2]]), np.array([[1, 2], [3, 4]])
figures.systolic(three_rows, weights, title="One color per row of data. The sums that fall out are the product")

# %% [markdown]
# The array fills along a diagonal and drains along one. Three rows keep it busy for 12 of 20 multiplier-steps. With three thousand rows you
# wouldn't notice.
#
# A v5e has four arrays of 128 × 128. What it can't hide is the time that weights take to arrive from memory. In bf16 a weight has two bytes. Each
# token of your batch uses it for two operations, a multiplication and an addition, so a batch of n tokens does n operations per byte.
#
# **Predict.** A v5e computes 197 TFLOP/s in bf16 and moves 819 GB/s. How many tokens must a batch have, before it can compute at full speed?

# %%
tokens_wanted = None  # @param {type:"integer"}

# %%
wanted = sheet.peak["bf16"] / sheet.bandwidth  # lesson 02's ridge: FLOP per byte
print(f"{sheet.peak['bf16'] / 1e12:.0f} TFLOP/s ÷ {sheet.bandwidth / 1e9:.0f} GB/s = {wanted:.0f} tokens{your_prediction(tokens_wanted)}, by the data sheet")

# %% [markdown]
# Training usually has that many tokens in a batch. A language model that writes one sequence has one, and leaves the array idle.
#
# A TPU plans ahead. Each number must be in place when the array needs it, so a compiler decides everything beforehand, and for that it must know
# every shape.
#
# ### How much was the call?
#
# JAX is Google's framework for TPUs. It has NumPy's names, and `jax.jit` compiles a function. The next cell asks whether you have a TPU. JAX calls
# a v5e "TPU v5 lite".

# %%
# needs: jax
import jax
import jax.numpy as jnp

with runtime.capture_stderr():  # a TPU's library talks while it starts
    chip = jax.devices()[0]
chip.device_kind

# %% [markdown]
# JAX's own documentation multiplies two matrices of 1,024 × 1,024 on a v5e and reports 9% of its speed. To see what a call costs, time a matmul in
# two ways: called on its own, and a hundred times in one compiled program. On a CPU take 32 × 32, so that the call isn't lost in the arithmetic.


# %%
# needs: jax
@jax.jit
def one(x, b):
    return x @ b


@jax.jit
def hundred(x, b):
    return jax.lax.fori_loop(0, 100, lambda i, x: x @ b, x)


n = 32 if chip.platform == "cpu" else 1024
b = jnp.eye(n, dtype="bfloat16" if chip.platform == "tpu" else "float32")
calls = benchmark.compare({"called": lambda: one(b, b), "in one program": lambda: hundred(b, b)}, budget=SECONDS)
call, inside = calls["called"].best, calls["in one program"].best / 100
print(f"n = {n}: {1e6 * call:.1f} µs for a call, {1e6 * inside:.1f} µs inside a program")

# %%
v5e = published_results.get("matmul-v5e-bf16")
took, could = (2 * 1024**3 / rate for rate in (v5e.points[1024], max(v5e.points.values())))
print(f"on a v5e, n = 1,024: {1e6 * took:.0f} µs for a call, {1e6 * could:.0f} at the speed of its largest matmul [{v5e.credit}]")

# %% [markdown]
# That measurement was timed on the host, call by call. If the array itself was as fast as in the largest matmul, nine tenths of the time was the
# call. Put the whole training step into one `jit`, or even many steps.

# %% [markdown] tags=["minutes-10"]
# ## A new length is a new program
#
# A compiled program fits one shape. A different shape is compiled again, as this training step for sentences shows with twelve lengths.

# %%
# needs: jax
layers = [jax.random.normal(key, (128, 128)) / 128**0.5 for key in jax.random.split(jax.random.key(0), 24)]


def loss_of(layers, x):
    for weight in layers:
        x = x + jax.nn.relu(x @ weight)
    return (x**2).mean()


@jax.jit
def step(layers, x):
    return [weight - 1e-3 * gradient for weight, gradient in zip(layers, jax.grad(loss_of)(layers, x))]


# %% [markdown]
# **Predict.** How many times as long does the first step of a new length take as the next one of the same length?

# %%
times_longer = None  # @param {type:"number"}


# %%
# needs: jax
def seconds(length, padded_to=0):
    sentence = np.zeros((max(length, padded_to), 128), "float32")
    sentence[:length] = 1  # any numbers will do
    start = time.perf_counter()
    jax.block_until_ready(step(layers, sentence))
    return time.perf_counter() - start


lengths = range(20, 20 + LENGTHS)
first = [seconds(length) for length in lengths]  # WRONG: each length as it comes
again = [seconds(length) for length in lengths]
padded = [seconds(length, padded_to=32) for length in lengths]  # RIGHT: filled up to 32

# %%
# @title Draw the calls { display-mode: "form" }
# needs: jax
longer = benchmark.Ratio.of(first, again)
figures.lines(
    lengths, {"first call": first, "second call": again, "padded to 32": padded}, log_y=True, units=("", "s"),
    xlabel="length of the sentence, before padding", ylabel="time for one step",
    title=f"A new length takes {1000 * min(first):.0f} ms, {longer} as long as a known one{your_prediction(times_longer, '×')}",
)

# %% [markdown]
# Each new length pays for a compilation. The factor belongs to a tiny step: one that takes a second would hide it better, although the compilation
# of a large model takes minutes. The padded sentences pay once, and then compute some rows for nothing.
#
# On a TPU the step gets shorter and the compiler doesn't, because it runs on the CPU. Pad to a few lengths, therefore, and drop the last, smaller
# batch of an epoch.
#
# Padding must not count in the loss, however. Take a classifier of digits, and a batch of 100 images filled up to 128 with zeros.

# %%
# needs: jax
pixels, digits = load_digits(return_X_y=True)
pixels = (pixels / 16).astype("float32")


def losses(weights, x, y):
    matrix, bias = weights
    return -jnp.take_along_axis(jax.nn.log_softmax(x @ matrix + bias), y[:, None], 1)[:, 0]  # one per row


@jax.jit
def train_step(weights, x, y):
    gradient = jax.grad(lambda weights: losses(weights, x, y).mean())(weights)
    return jax.tree.map(lambda w, g: w - 0.5 * g, weights, gradient)  # for each array


weights = jnp.zeros((64, 10)), jnp.zeros(10)
for _ in range(300):
    weights = train_step(weights, pixels, digits)

# %%
# needs: jax
x, y = np.zeros((128, 64), "float32"), np.zeros(128, int)
x[:100], y[:100] = pixels[:100], digits[:100]
real = np.arange(128) < 100
ways = {
    "the 100 images": lambda w: losses(w, x[:100], y[:100]).mean(),
    "padded": lambda w: losses(w, x, y).mean(),
    "padding × 0": lambda w: (losses(w, x, y) * real).mean(),
    "padding × 0, divided by 100": lambda w: (losses(w, x, y) * real).sum() / real.sum(),
}
results = {name: jax.value_and_grad(way)(weights) for name, way in ways.items()}
true = results["the 100 images"][1][1]  # the gradient of the bias
for name, (loss, (_, bias)) in results.items():
    off = float(jnp.linalg.norm(bias - true) / jnp.linalg.norm(true))
    print(f"{name:>28}: loss {loss:.3f}, gradient of the bias off by {off:.0%}")

# %% [markdown]
# The 28 rows of padding nearly tripled the loss, and they pull the bias toward the digit 0. Near the end of training the true gradients are small,
# so that's a lot. Multiplying them by 0 isn't enough, since the mean still divides by
# 128. Divide by the real rows.

# %% [markdown] tags=["minutes-9"]
# ## A TPU's compiler, without a TPU
#
# Since the compiler plans everything, it also knows how much memory a program needs, and it doesn't need a TPU for that. The package `libtpu`
# contains it, and runs on any Linux computer with an x86 processor. The next cell describes eight chips that aren't there.

# %%
# needs: jax, libtpu
from jax.experimental import topologies

with runtime.capture_stderr():
    absent = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4").devices
print(len(absent), "×", absent[0].device_kind)

# %% [markdown]
# The program is a training step with Adam. Each layer widens its input four times and shrinks it again. `jax.tree.map` does something to every
# array of a list.


# %%
# needs: jax, libtpu
def blocks_loss(blocks, x):  # x: (tokens, width), bf16
    for up, down in blocks:
        x = x + jax.nn.relu(x @ up.astype(x.dtype)) @ down.astype(x.dtype)
    return (x.astype("float32") ** 2).mean()


def adam_step(blocks, mean, square, x):  # without the bias correction
    gradient = jax.grad(blocks_loss)(blocks, x)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, gradient)
    return jax.tree.map(lambda w, m, s: w - 1e-3 * m / (s**0.5 + 1e-8), blocks, mean, square), mean, square


# %% [markdown]
# Now hand over shapes instead of data. A *mesh* gives a name to each axis along which chips are arranged; this one has a single axis, `data`. A
# `PartitionSpec`, `jax.P` for short, says how an array is spread over it. `P()` gives each chip a copy. `P("data")` *shards* the rows: each chip
# gets a part of them. *Donating* the old weights lets the new ones take their place.


# %%
# needs: jax, libtpu
def compile_for(chips, width, depth, tokens, layout):
    mesh = jax.sharding.Mesh(np.array(absent[:chips]), "data")

    def shape(sizes, dtype, layout):
        return jax.ShapeDtypeStruct(sizes, dtype, sharding=jax.NamedSharding(mesh, layout))

    up, down = (shape(sizes, "float32", layout) for sizes in ((width, 4 * width), (4 * width, width)))
    x, blocks = shape((tokens, width), "bfloat16", jax.P("data")), [(up, down)] * depth
    return jax.jit(adam_step, donate_argnums=(0, 1, 2)).lower(blocks, blocks, blocks, x).compile()


# %% [markdown]
# A v5e has 16 GiB of memory, of which a program may use 15.75. Four layers of width 1,024, with Adam's two moments, take 0.4 GiB. Each token leaves
# at least 4,096 values of two bytes in each layer, for the backward pass.
#
# **Predict.** Start with 131,072 tokens and keep doubling. What's the largest batch that fits?

# %%
tokens_that_fit = None  # @param ["131072", "262144", "524288", "1048576"] {type:"raw"}

# %%
# needs: jax, libtpu
peaks = {}
for tokens in TOKENS:
    try:
        with runtime.capture_stderr():
            program = compile_for(1, 1024, 4, tokens, jax.P())
        peaks[tokens] = program.memory_analysis().peak_memory_in_bytes
        operations = program.cost_analysis()["flops"] / tokens
        print(f"{tokens:>9,} tokens: {peaks[tokens] / 2**30:.1f} GiB, {operations / 1e6:.0f} MFLOP per token")
    except jax.errors.JaxRuntimeError as error:
        print(f"{tokens:>9,} tokens: {error}"[:175])
most = max(peaks)
print(f"the largest that fits: {most:,}{your_prediction(tokens_that_fit)}")

# %% [markdown]
# The refusal is the message that you'd read on a TPU when you run out of memory; the compiler's "G" is GiB. Despite its wording, the total includes
# weights and moments.
#
# At 524,288, twice the tokens took hardly more memory, and more operations per token. A compiler that sees that a program won't fit can throw some
# results away and compute them again in the backward pass, and these two numbers are what that looks like.

# %% [markdown] tags=["minutes-6"]
# ## Eight chips that aren't there
#
# The next model is too large for one chip: 12 layers of width 4,096 are 1.6 billion weights. With Adam's two moments they take 12 bytes each, so
# 18.0 GiB. So take eight chips.
#
# **Predict.** You give each of the eight chips a copy of the weights, and an eighth of the tokens. Does it fit?

# %%
copies_fit = None  # @param ["yes", "no"]

# %%
# needs: jax, libtpu
wanted_bytes, refused = {}, []
plans = {"1 chip": (1, jax.P()), "8 chips, 8 copies": (8, jax.P())}
plans |= {f"{chips} chips, weights sharded": (chips, jax.P(None, "data")) for chips in CHIPS if chips > 1}
for name, (chips, layout) in plans.items():
    try:
        with runtime.capture_stderr():
            program = compile_for(chips, 4096, 12, 16384, layout)
        wanted_bytes[name] = program.memory_analysis().peak_memory_in_bytes
    except jax.errors.JaxRuntimeError as error:
        name += ": refused"
        wanted_bytes[name] = float(re.search(r"([\d.]+)G\)", str(error))[1]) * 2**30
        refused.append(name)
    print(f"{name}, {wanted_bytes[name] / 2**30:.1f} GiB per chip")

# %%
# @title Draw what a chip must hold { display-mode: "form" }
# needs: jax, libtpu
answer = "no" if "8 chips, 8 copies: refused" in wanted_bytes else "yes"
sharded = wanted_bytes["8 chips, weights sharded"]
figures.bars(
    {name: size / 2**30 for name, size in wanted_bytes.items()}, unit="GiB", paper=refused, marks={"a v5e has": 15.75},
    title=f"Eight copies {'fit' if answer == 'yes' else 'do not fit'}. Sharded, a chip holds {sharded / 2**30:.1f} GiB{your_prediction(copies_fit)}",
)

# %% [markdown]
# The hatched bars were refused. Seven more chips saved hardly anything, because each still held all 18.0 GiB of weights and moments, and sharding
# the tokens doesn't touch those.
#
# One argument changed that. `P(None, "data")` shards the columns of each weight. A chip then holds an eighth, which is 2.25 GiB, and fetches the
# rest when it needs it. Fetched weights take room, too, and so do the tokens' results. That's called *fully sharded data parallel*, FSDP for short.
# The next cell counts what the compiler put into the program.

# %%
# needs: jax, libtpu
text = program.as_text()  # of the last plan
found = {name: text.count(f" {name}(") + text.count(f" {name}-start(") for name in ("all-gather", "reduce-scatter", "all-reduce", "collective-permute")}
found

# %% [markdown]
# You wrote none of these. An *all-gather* collects a weight from all chips. The other half of FSDP, adding up the gradients and giving each chip
# its part of the sum, would be a *reduce-scatter*. On eight chips there is none by that name; instead there are *permutes*, which send from one
# chip to the next. Counting words in the program tells you which operations are there. It doesn't tell you why the compiler chose them.

# %% [markdown] tags=["minutes-4"]
# ## One device and eight
#
# Whether it computes the same can't be told from compiling, so run it. XLA can split your CPU into eight devices. They share your cores, but they
# hold parts and exchange sums as chips do. One line asks for them, before JAX starts: `jax.config.update("jax_num_cpu_devices", 8)`. The set-up of
# this notebook did it.
#
# `train_step` from above doesn't know how many devices there are. That is decided by where its inputs are.

# %%
# needs: jax
eight = jax.devices("cpu")
mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,), devices=eight)
by_rows, everywhere = jax.NamedSharding(mesh, jax.P("data")), jax.NamedSharding(mesh, jax.P())
split = data.digits()


def train(place_batch, place_weights, rows=128):
    weights = jax.device_put((jnp.zeros((64, 10)), jnp.zeros(10)), place_weights)
    for number in range(STEPS):
        chosen = np.random.default_rng(number).integers(len(split.x_train), size=128)[:rows]
        x, y = jax.device_put((split.x_train[chosen], split.y_train[chosen]), place_batch)
        weights = jax.block_until_ready(train_step(weights, x, y))
    return jax.device_get(weights)


# %% [markdown]
# `Auto` lets XLA decide what you leave open. In newer versions of JAX `make_mesh` has a different default, *explicit* mode, in which an array's
# type says how it is sharded.
#
# Sums taken in a different order rarely agree to the last bit, so you need a yardstick. Train once more and forget one row of the 128.

# %%
# needs: jax
alone, together = train(eight[0], eight[0]), train(by_rows, everywhere)
forgetful = train(eight[0], eight[0], rows=127)
gap, gap_forgetful = (float(np.abs(other[0] - alone[0]).max() / np.abs(alone[0]).max()) for other in (together, forgetful))

# %%
# @title Draw the gaps { display-mode: "form" }
# needs: jax
figures.dot_plot(
    {"eight devices, measured": gap, "one row of 128 forgotten, measured": gap_forgetful}, unit="", xlabel="largest difference in a weight ÷ largest weight",
    title="Eight devices compute the same, up to rounding" if 100 * gap < gap_forgetful else "The results DIFFER",
)

# %% [markdown]
# How did eight devices agree on one gradient? Read the compiled program.

# %%
# needs: jax
placed = jax.device_put((split.x_train[:128], split.y_train[:128]), by_rows)
lines = train_step.lower(jax.device_put(alone, everywhere), *placed).compile().as_text().splitlines()
all_reduces = [line.strip() for line in lines if " all-reduce(" in line or " all-reduce-start(" in line]
print(*(line.partition(", channel_id")[0] for line in all_reduces), sep="\n")

# %% [markdown]
# That's an *all-reduce*. It adds up the gradients of all devices, some of them transposed, and gives each device the sum. XLA put it in, because
# the mean in your loss runs over rows on different devices.

# %% [markdown] tags=["minutes-5", "short-0"]
# ## When is sending free?
#
# On real chips that sum must travel. In a ring each chip sends nearly twice the gradient's bytes. The next cell is a model, not a measurement. It
# assumes that the chip computes at its data sheet's speed and that all links of a v5e are busy, 200 GB/s in all. That needs a full pod of 16 × 16
# chips, whose links close into rings in both directions; the eight chips above have no such rings, and would get about half or less.

# %%
parameters, chips = 5e8, 256  # half a billion, so 1 GB of gradient in bf16
peak, links = sheet.peak["bf16"], sheet.links["chips"]
send = 2 * (chips - 1) / chips * 2 * parameters / links  # seconds


def share_of_work(tokens):  # per chip
    forward = 2 * parameters * tokens / peak
    backward = 2 * forward
    alternating = (forward + backward) / (forward + backward + send)
    overlapped = (forward + backward) / (forward + max(backward, send))  # sent during the backward pass
    return 100 * alternating, 100 * overlapped


# %% [markdown]
# **Predict.** 256 chips, 1,000 tokens each. What percentage of the time do they compute, if they send during the backward pass?

# %%
percent_working = None  # @param {type:"number"}

# %%
# @title Draw the shares { display-mode: "form" }
counts = [125 * 2**k for k in range(8)]
figures.lines(
    counts, {}, ideal={"one after the other": [share_of_work(n)[0] for n in counts], "overlapped": [share_of_work(n)[1] for n in counts]},
    doubling=True, xlabel="tokens per chip", ylabel="% of the time spent computing",
    title=f"A model: at 1,000 tokens {share_of_work(1000)[0]:.0f}%, and overlapped {share_of_work(1000)[1]:.0f}%{your_prediction(percent_working, '%')}",
)

# %% [markdown]
# The upper line bends where sending takes as long as the backward pass: 4 bytes per weight over the links, against 4 operations per weight and
# token. That is at peak ÷ links tokens per chip, the ridge once more, this time between chips, and to the right of it the sending is hidden.
# Frameworks overlap, so that's the line to hope for. With gradients in float32 the bend is at twice as many tokens.

# %% [markdown] tags=["minutes-7"]
# ## Exercises
#
# ### 1 · Read an all-reduce
#
# A compiled program for eight chips has this line. How many bytes does each chip end up with?
#
# ```
# %all-reduce.4 = (f32[64,256], f32[256,10], bf16[1000]) all-reduce(%dot.7, %dot.9, %convert.2), replica_groups={{0,1,2,3,4,5,6,7}}
# ```

# %% tags=["exercise"]
bytes_summed = ...
### BEGIN SOLUTION
bytes_summed = 4 * 64 * 256 + 4 * 256 * 10 + 2 * 1000  # f32 has four bytes, bf16 two
### END SOLUTION
exercises.check("05.all_reduce", bytes_summed)

# %% [markdown]
# ### 2 · Choose a mesh
#
# Eight chips of 16 GiB. Weights, gradients and Adam's moments take 48 GiB, and intermediate results 3 GiB on each chip. The batch is sharded along
# `data`, and the weights along `model` only. How long do the two axes have to be, if `data` should be as long as possible?

# %% tags=["exercise"]
mesh_shape = {"data": ..., "model": ...}
### BEGIN SOLUTION
mesh_shape = {"data": 2, "model": 4}  # 48 / 4 + 3 = 15 GiB; with model = 2 it would be 27
### END SOLUTION
exercises.check("05.mesh", mesh_shape)

# %% [markdown]
# ### 3 · Which calls compile?
#
# `step` is freshly jitted, and these six calls come in this order. Which of them compile? Answer with a set, such as `{1, 2}`.
#
# ```
# 1  step(w, jnp.ones((32, 128)))
# 2  step(w, jnp.zeros((32, 128)))
# 3  step(w, jnp.ones((33, 128)))
# 4  step(w, jnp.ones((32, 128), "bfloat16"))
# 5  step(w, 2 * jnp.ones((32, 128)))
# 6  step(w, jnp.zeros((33, 128)))
# ```

# %% tags=["exercise"]
compiling = ...
### BEGIN SOLUTION
compiling = {1, 3, 4}  # a new shape or a new dtype; values don't matter
### END SOLUTION
exercises.check("05.compiles", compiling)

# %% [markdown]
# ### 4 · Open task, few programs, little padding
#
# Write `padded(length)`, which says to what length a sentence of 1 to 1,024 words is filled up. The check sends each length through it and counts:
# at most eight different results, and at most a quarter more words in total, over all 1,024 lengths.

# %% tags=["exercise"]
def padded(length):
    return ...


### BEGIN SOLUTION
def padded(length):
    return -(-length // 128) * 128  # the next multiple of 128: eight programs, 12% padding


### END SOLUTION
exercises.check("05.buckets", padded)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
# needs: jax
takeaways = {
    "Keep shapes few": f"a new length took {longer} as long as a known one.",
    "Ask the compiler": "it knows what fits before anything runs, and needs no TPU for that.",
    "Devices are an argument": f"the same step on eight devices gave the same weights, to within {gap:.0e}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Put predictions beside results { display-mode: "form" }
guess, seen = measurements.Prediction, globals()
predicted = {
    "tokens_wanted": guess(tokens_wanted, wanted),
    "percent_working": guess(percent_working, share_of_work(1000)[1], "%"),
}
if "longer" in seen:
    predicted["times_longer"] = guess(times_longer, longer.value, "×")
if "most" in seen:
    predicted["tokens_that_fit"] = guess(tokens_that_fit, most)
if "answer" in seen:
    predicted["copies_fit"] = guess(copies_fit, answer)

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, inventory = measurements.Value, hardware.list_devices()
measured = {} if "longer" not in seen else {
    "recompiling": value(longer.value, "×", "time of a step of a new length, a known one being 1"),
    "jit_call": value(call, "s", "one call of a small matmul"),
    "padded_loss": value(float(results["padded"][0] / results["the 100 images"][0]), "×", "mean loss with 28 rows of padding, the true one being 1"),
    "weights_gap": value(gap, "", "largest gap of a weight: eight devices and one"),
    "one_row_gap": value(gap_forgetful, "", "the same, with one row of 128 forgotten"),
    "all_reduces": value(len(all_reduces), "", "all-reduces in a training step for eight devices"),
}
measured |= {"tokens_v5e": value(most, "", "tokens fit on a v5e, says its compiler, of those tried")} if "most" in seen else {}
measured |= {"sharded": value(sharded, "B", "on each of eight chips, weights sharded, says the compiler")} if "answer" in seen else {}
on_chip = "chip" in seen and chip.platform != "cpu"
measurements.record("05_tpu_strategy", FAST, device=inventory.main if on_chip else inventory.cpu, predicted=predicted, **measured)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# import jax, numpy as np
# jax.config.update("jax_num_cpu_devices", 8)  # to run on eight devices without a TPU
# from jax.experimental import topologies  # pip install "jax[tpu]", x86 Linux; JAX 0.10 or newer, since 0.7 crashes here
#
# chips = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4").devices
# mesh = jax.sharding.Mesh(np.array(chips), "data")
#
# def shape(array, layout):  # what the compiler wants to know
#     return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=jax.NamedSharding(mesh, layout))
#
# def sharded(w):  # the last axis, if it can be divided
#     fits = w.ndim > 0 and w.shape[-1] % len(chips) == 0
#     return jax.P(*[None] * (w.ndim - 1), "data") if fits else jax.P()
#
# state = jax.tree.map(lambda w: shape(w, sharded(w)), my_state)  # weights and the optimizer's
# batch = jax.tree.map(lambda x: shape(x, jax.P("data")), my_batch)
# program = jax.jit(my_step, donate_argnums=0).lower(state, batch).compile()
# print(program.memory_analysis().peak_memory_in_bytes / 2**30, "GiB on each chip")
# ```
#
# A TPU's compiler tells you beforehand what fits. On a GPU you find out while it runs, unless you know where the memory goes, which is lesson 06.
# Eight real v5e chips can be had free of charge on Kaggle.
#
# What old notebooks say:
#
# | you find | it was | write today |
# |---|---|---|
# | `os.environ["COLAB_TPU_ADDR"]` | the address of a TPU elsewhere in the network | nothing. The chip is in your machine |
# | `TPUClusterResolver()`, `initialize_tpu_system(tpu)` | connected TensorFlow to it | JAX, or Keras on JAX. Colab's TPU runtime has no TensorFlow (README of googlecolab/backend-info) |
# | `jax.tools.colab_tpu.setup_tpu()` | connected JAX to it | nothing |
# | "8 cores" | a v2-8; Colab now offers v5e-1 and v6e-1, with one chip each | `len(jax.devices())` |
# | `import torch_xla` | PyTorch on a TPU | still there, but ending: its last release is 2.9.0, and *TorchTPU* (`torch-tpu` 0.2.0) is replacing it |
