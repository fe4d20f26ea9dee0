# %%
# @title Imports { display-mode: "form" }
import os
import subprocess
import sys
import time

from colab_helpers import benchmark, facts, hardware, runtime

from colab_lessons import data, exercises, figures, reference, replay
from colab_lessons.predictions import guessed

replay.watch("04_tensorflow_on_gpu")  # cells that need what is missing show recorded results
machine = hardware.list_devices().cpu

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
EPOCHS = None
IMAGES = None
NUMBERS = None
COLUMNS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.05 if FAST else 0.5)  # time budget of one measurement
EPOCHS = EPOCHS or (5 if FAST else 30)
IMAGES = IMAGES or (128 if FAST else 640)
NUMBERS = NUMBERS or (10**6 if FAST else 10**7)
COLUMNS = COLUMNS or (64 if FAST else 4096)  # of the matrix in a GPU's training step

# %% [markdown] tags=["minutes-1"]
# ## Start quietly
#
# TensorFlow's C++ part logs a lot while it starts; `runtime.quiet` holds that back unless the start fails. If there is no
# TensorFlow here, as on Colab's TPU machine, you will see recorded results, and each of them says so. (Names from `colab_helpers` only
# measure, draw and keep records. Everything else is TensorFlow's own.)

# %%
# needs: tensorflow
with runtime.quiet():
    import tensorflow as tf
tf.get_logger().setLevel("ERROR")  # no warnings from Python's side
tf.__version__

# %% [markdown] tags=["minutes-5"]
# ## Two answers to one question
#
# The driver may know of a GPU that TensorFlow cannot use. So ask both, and ask what TensorFlow was built for.

# %%
# needs: tensorflow
device = hardware.list_devices().accelerator
build = tf.sysconfig.get_build_info()
with runtime.quiet():
    gpus = tf.config.list_physical_devices("GPU")
answers = {
    "the driver sees": device.name if device and device.kind == "GPU" else "no GPU",
    "TensorFlow sees": [gpu.name for gpu in gpus] or "no GPU",
    "built for CUDA": build.get("cuda_version", "not at all"),
}
answers

# %% [markdown]
# If both say "no GPU", there is none that this machine's software can reach. If only TensorFlow says so, it was built without CUDA, or it looks for another version
# of CUDA's libraries than the one that is installed. On Colab this may happen to you:

# %% tags=["nbval-check-output"]
facts.quote("tensorflow-cuda")

# %% [markdown] tags=["minutes-4"]
# ## See the devices
#
# *Physical* devices are what is there. TensorFlow can split one of them into several *logical* devices, if you say so
# before it first computes anything. Do that now, and TensorFlow treats one chip as two. (They share its speed. This makes nothing
# faster; it is for practice.) On a GPU each gets 2 GiB (why a limit: see
# *Memory* below). Without one you get three CPU devices: the first plays the host, the others play accelerators.

# %%
# needs: tensorflow
physical = gpus or tf.config.list_physical_devices("CPU")
on_gpu = physical[0].device_type == "GPU"
machine = hardware.list_devices().main if on_gpu else machine
half = tf.config.LogicalDeviceConfiguration(memory_limit=2048 if on_gpu else None)  # MiB
with runtime.quiet():
    if on_gpu:
        tf.config.set_visible_devices(physical[0], "GPU")  # the first card, if there are two
    tf.config.set_logical_device_configuration(physical[0], [half] * (2 if on_gpu else 3))
    logical = tf.config.list_logical_devices()
[device.name for device in logical]

# %% [markdown]
# TensorFlow treats them as real devices: it places work on each, and copies between them as it does between chips.

# %%
# needs: tensorflow
host = tf.config.list_logical_devices("CPU")[0].name
accelerators = [device.name for device in logical if device.name != host][-2:]
host, accelerators

# %% [markdown] tags=["minutes-6"]
# ## Where does work happen?
#
# Left to itself, TensorFlow prefers a GPU. Every tensor tells you where it lives.

# %%
# needs: tensorflow
a = tf.random.normal((1000, 1000))
product = a @ a
product.device.split("/")[-1]

# %% [markdown]
# You decide with `tf.device`. The result stays where it was made.

# %%
# needs: tensorflow
with tf.device(accelerators[1]):
    placed = tf.random.normal((1000, 1000)) + 1.0
placed.device.split("/")[-1]

# %% [markdown]
# ### WRONG: ask for a device that is not there
#
# **Predict.** You ask for a device that is not there, `GPU:7`. Does the next cell fail, or does it run?

# %%
it_will = None  # @param ["fail", "run"]

# %%
# needs: tensorflow
with tf.device("GPU:7"):
    astray = tf.constant(1.0) + 1.0
outcome = f"on {astray.device.split('/')[-1]}"
f"no error: it ran {outcome}{guessed(it_will)}"

# %% [markdown]
# ### RIGHT: be strict, and read the message
#
# *Soft placement* is on by default, so the work quietly ran somewhere else. Turn it off, and TensorFlow speaks up.

# %%
# needs: tensorflow
tf.config.set_soft_device_placement(False)
try:
    with tf.device("GPU:7"):
        message = tf.constant(1.0) + 1.0
except (RuntimeError, tf.errors.InvalidArgumentError) as error:
    message = str(error).replace(". ", ".\n")
tf.config.set_soft_device_placement(True)
print(message)

# %% [markdown] tags=["minutes-4"]
# ## The placement log
#
# `set_log_device_placement` names the device of every operation. It writes to a process's error stream, so here it runs in a
# process of its own, with two CPU devices, and you see its last lines. The program makes `rows` on the second device.
#
# **Predict.** Where does the product `rows @ rows` run?

# %%
product_runs_on = None  # @param ["CPU:0", "CPU:1"]

# %%
# needs: tensorflow
program = """
import tensorflow as tf
tf.config.set_visible_devices([], "GPU")
[cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.debugging.set_log_device_placement(True)
with tf.device("CPU:1"):
    rows = tf.random.normal((4, 4))
tf.reduce_sum(rows @ rows)
"""
loud = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"}
command = [sys.executable, "-c", program]
log = subprocess.run(command, capture_output=True, text=True, timeout=120, env=loud, check=True)
lines = [line.split("Executing op ")[1] for line in log.stderr.splitlines() if "Executing op" in line]
print(*(line.replace("/job:localhost/replica:0/task:0", "") for line in lines[-6:]), sep="\n")

# %%
# needs: tensorflow
where = next(line.rpartition("device:")[2] for line in lines if "MatMul" in line)
f"the product ran on {where}{guessed(product_runs_on)}"

# %% [markdown] tags=["minutes-9", "short-0"]
# Outside `tf.device`, TensorFlow works on `GPU:0` if there is one and on `CPU:0` if not, usually wherever the inputs are. (This little program hides the GPU.) It copied
# yours there, silently. (`Mul` and `AddV2` belong to `random.normal`, and names
# that begin with `_` are TensorFlow's own.)
#
# ## The digits again
#
# The same images, the same network and the same optimiser as in lesson 03. In Keras 3 the shape of the input is a layer of
# its own, `keras.Input`.

# %%
split = data.digits()
split.x_train.shape, split.x_test.shape

# %%
# needs: tensorflow, keras
import keras

keras.utils.set_random_seed(0)
model = keras.Sequential([
    keras.Input((64,)),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(10),
])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="adam", loss=loss, metrics=["accuracy"], jit_compile=False)  # XLA, a compiler, comes later

# %%
# needs: tensorflow, keras
history = model.fit(split.x_train, split.y_train, batch_size=64, epochs=EPOCHS, verbose=0)
accuracy = model.evaluate(split.x_test, split.y_test, verbose=0)[1]
figures.lines(
    range(1, EPOCHS + 1), {"training loss": history.history["loss"]},
    title=f"The loss falls to {history.history['loss'][-1]:.2g}; {accuracy:.1%} of the test digits are right", xlabel="epoch", ylabel="loss",
)

# %% [markdown] tags=["minutes-15", "short-13"]
# ## A pipeline, one step at a time
#
# `tf.data` prepares batches. Here each image is enlarged to 160 × 160 pixels, which stands for *decoding* a photograph, and its
# brightness is changed. Four things can be added:
#
# - `prefetch`: prepare the next batch while the step runs, so it stands last;
# - a parallel `map`: several images at once;
# - `cache`: store what never changes. So put it after decoding, and before anything random;
# - `shuffle`: mix single images, so it goes before `batch`. It is there for the learning, not for speed.
#
# (TensorFlow adds some of this by itself. That is turned off here, so that you can see it.)
#
# With a GPU, our training step is one large product. Without one we sleep for 6 ms. From the CPU's side a GPU step looks just like that: another chip is busy. Preparing a batch
# from scratch takes a CPU two or three times as long.
#
# **Predict.** How many times as fast as the plain pipeline is the one with all four?

# %%
times_faster = None  # @param {type:"number"}

# %%
# needs: tensorflow
def enlarge(image, label):
    image = tf.image.resize(tf.reshape(image, (8, 8, 1)), (160, 160), method="bicubic")
    return image, label


def brighten(image, label):
    return tf.image.random_brightness(image, 0.2), label


# %%
# @title The images, without what TensorFlow adds by itself { display-mode: "form" }
# needs: tensorflow
by_hand = tf.data.Options()
by_hand.experimental_optimization.apply_default_optimizations = False  # they would add a prefetch, too
rows = split.x_train[:IMAGES], split.y_train[:IMAGES]
source = tf.data.Dataset.from_tensor_slices(rows).with_options(by_hand)

# %%
# needs: tensorflow
auto = tf.data.AUTOTUNE  # TensorFlow decides how many
pipelines = {
    "plain": source.map(enlarge).map(brighten).batch(64),
    "+ prefetch": source.map(enlarge).map(brighten).batch(64).prefetch(auto),
    "+ parallel map": source.map(enlarge, auto).map(brighten, auto).batch(64).prefetch(auto),
    "+ cache": source.map(enlarge, auto).cache().map(brighten, auto).batch(64).prefetch(auto),
    "+ shuffle": source.map(enlarge, auto).cache().shuffle(2000).map(brighten, auto).batch(64).prefetch(auto),
}

# %%
# needs: tensorflow
projection = tf.random.normal((160 * 160, COLUMNS)) if on_gpu else None


def train_on(images):
    if on_gpu:
        (tf.reshape(images, (-1, 160 * 160)) @ projection).numpy()  # .numpy() waits for the result
    else:
        time.sleep(0.006)


def epoch(pipeline):
    for images, _ in pipeline:
        train_on(images)


# %%
# needs: tensorflow
seconds = dict.fromkeys(pipelines, float("inf"))
with runtime.quiet():  # some versions report the end of each pass
    for _ in range(3):  # in turns, so that a slow moment of the machine hits all of them
        for name, pipeline in pipelines.items():
            now = benchmark.measure(lambda: epoch(pipeline), budget=SECONDS).median
            seconds[name] = min(seconds[name], now)

# %%
# needs: tensorflow
pipeline_gain = seconds["plain"] / seconds["+ shuffle"]
figures.bars(seconds, unit="s", title=f"With all four, {pipeline_gain:.1f} times as fast as plain{guessed(times_faster)}")

# %% [markdown]
# `prefetch` lets the two overlap: while one batch trains, the next is made. It pays because they use different chips; if the step ran on your
# CPU as well, they would share its cores. The parallel map uses all of them, and the cache leaves only the brightness to be computed. (Passes are timed when the cache
# is full.) What remains is the steps, ten of them, and the start of the pipeline.
#
# How does this look from the training step? Record when it is busy, from the first batch on; in the white gaps it waits for a batch.

# %%
# needs: tensorflow
def watch(pipeline):
    spans, start = [], None
    for images, _ in pipeline:
        start = start or time.perf_counter()  # from the first batch on
        begins = time.perf_counter() - start
        train_on(images)
        benchmark.synchronize()  # the clock waits for whatever is still running
        spans.append((begins, time.perf_counter() - start, "trains"))
    return spans


def share_of_training(spans):
    return sum(end - begin for begin, end, _ in spans) / spans[-1][1]


# %%
# needs: tensorflow
with runtime.quiet():
    starved, fed = watch(pipelines["plain"]), watch(pipelines["+ shuffle"])
training = share_of_training(starved), share_of_training(fed)
figures.activity(
    {"plain": {"": starved}, "with all four": {"": fed}},
    title=f"Starved, the step works {training[0]:.0%} of the time; fed, {training[1]:.0%}",
)

# %% [markdown] tags=["minutes-10"]
# The gaps are waiting. Now imagine a faster
# GPU: its blocks shrink to slivers, and the gaps stay as wide as they are. That is what a GPU at 5 % looks
# like, and a still faster one would change nothing. Feed it first.
#
# ## Eager, graph, XLA
#
# *Eager* means that Python calls each operation. With `tf.function`, Python builds a *graph* of them once, and TensorFlow runs
# that. With `jit_compile=True`, the compiler XLA also fuses the graph, so that it goes over memory fewer times.

# %%
# needs: tensorflow
def curve_of(x):
    return tf.sin(x) * tf.cos(x) + x**2 * tf.sigmoid(x)


def rewritten(x):
    return tf.sin(x) * tf.cos(x) + x * x * tf.sigmoid(x)


ways = {
    "eager": curve_of,
    "eager, x * x": rewritten,
    "graph": tf.function(curve_of),
    "XLA": tf.function(curve_of, jit_compile=True),
}
large = tf.random.normal((NUMBERS,))
small = tf.random.normal((16,))

# %% [markdown]
# **Predict.** Which of the four wins for many numbers?

# %%
fastest_large = None  # @param ["eager", "eager, x * x", "graph", "XLA"]

# %%
# needs: tensorflow
with runtime.quiet():  # XLA introduces itself
    try:
        ways["XLA"](small)
    except (tf.errors.OpError, RuntimeError) as error:
        del ways["XLA"]  # no compiler for this device
        print(f"XLA does not run here: {str(error)[:120]}")
    of_large = {way: benchmark.measure(lambda: ways[way](large), budget=SECONDS).median for way in ways}
    of_small = {way: benchmark.measure(lambda: ways[way](small), budget=SECONDS).median for way in ways}

# %%
# needs: tensorflow
best_large = min(of_large, key=of_large.get)
compiled_gain = of_large["eager"] / of_large[best_large]
figures.bars(
    of_large, unit="s",
    title=f"{NUMBERS:,} numbers: {best_large} is {compiled_gain:.1f} times as fast as eager{guessed(fastest_large)}",
)

# %%
# needs: tensorflow
print("16 numbers:", " · ".join(f"{way} {1e6 * each:.0f} µs" for way, each in of_small.items()))

# %% [markdown]
# Surprised by the second bar? A graph is tidied up before it runs, and here most of its gain is one repair: `x**2`, a slow power on a CPU, becomes a product.
# You can do that by hand, and stay eager. The rest probably comes from reusing memory, and from running independent operations at once. XLA also goes over memory less
# often, and a GPU, whose memory is slow beside its arithmetic, has most use for that. On a CPU, XLA's fused loop may run on one thread where the graph uses all of them, so look at your
# own figure before you switch it on. On 16 numbers you only time the calls, and calling a graph can cost more than all seven operations
# do one by one. So "graphs are faster" is not a law: time yours.
#
# ### WRONG: call a graph with Python numbers
#
# A list in the body of the function counts how often Python runs that body, which it does only while a graph is built (*traced*).
#
# **Predict.** How many graphs do five calls with five different Python numbers make?

# %%
graphs_made = None  # @param {type:"integer"}

# %%
# needs: tensorflow
traces = []


@tf.function
def square(x):
    traces.append(x)  # runs only while a graph is built
    return x * x


for n in range(5):
    square(n)
wrong_traces = len(traces)
f"{wrong_traces} graphs{guessed(graphs_made)}"

# %% [markdown]
# To TensorFlow a Python number is a part of the program, so a new number is a new program. In a loop of your own you would notice by the warning
# "triggered tf.function retracing", after the fifth. (`setLevel("ERROR")`, near the top of this notebook, hides it here.)
#
# ### RIGHT: call it with tensors
#
# A tensor is data, and needs no graph of its own.

# %%
# needs: tensorflow
traces.clear()
for n in range(5):
    square(tf.constant(n))
right_traces = len(traces)
f"{right_traces} graph{'s' * (right_traces != 1)}"

# %% [markdown] tags=["minutes-3", "short-0"]
# ## Memory: grow, or a limit
#
# Left to itself, TensorFlow takes nearly all the memory of a GPU at once, and PyTorch in the same notebook finds little left. Colab sets an
# environment variable that makes it *grow* instead. Elsewhere, call `tf.config.experimental.set_memory_growth(gpu, True)`
# before anything else, or set a limit as above. One call or the other, not both.

# %%
# needs: tensorflow
names = [name.split("/")[-1].removeprefix("device:") for name in accelerators]
grows = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "not set")
limits = tf.config.get_logical_device_configuration(physical[0])
try:
    in_use = f"{tf.config.experimental.get_memory_info(names[0])['current'] / 2**20:.1f} MiB"
except ValueError as error:
    in_use = str(error)
{"TF_FORCE_GPU_ALLOW_GROWTH": grows, "limit in MiB": [one.memory_limit for one in limits], "in use": in_use}

# %% [markdown]
# On a GPU the limit is hard: beyond it you get an out-of-memory error although the chip has more. On CPU devices there
# is no limit, they all share one count, and some builds of TensorFlow do not count at all.

# %% [markdown] tags=["minutes-4", "short-0"]
# ## Split a computation by hand
#
# The upper half of a product on one accelerator, the lower half on the other, joined on the host.

# %%
# needs: tensorflow
left, right = tf.random.normal((1000, 500)), tf.random.normal((500, 300))
with tf.device(accelerators[0]):
    upper = left[:500] @ right
with tf.device(accelerators[1]):
    lower = left[500:] @ right
with tf.device(host):
    joined = tf.concat([upper, lower], 0)
gap = float(tf.reduce_max(tf.abs(joined - left @ right)))
[t.device.split("/")[-1] for t in (upper, lower, joined)], f"largest difference {gap:.1e}"

# %% [markdown]
# Each entry of the product is a sum of its own, of 500 terms, and is never split: what can differ is only the order in which a device
# adds. (Such sums are about √500 ≈ 22 in size, so differences of a hundred-thousandth would be normal.) Next we split the sum itself.

# %% [markdown] tags=["minutes-4", "short-0"]
# ## Let a strategy split
#
# `MirroredStrategy` keeps a copy of the model on each device, gives each of them its share of the batch, and adds up their
# gradients. So the loss of each share has to be divided by the *whole* batch: then the sum is the mean over all rows. In `model.fit` Keras does
# all that for you. Here you see it at work: `strategy.run` computes on each device, `strategy.reduce` adds up.

# %%
# @title A strategy for the two devices { display-mode: "form" }
# needs: tensorflow
tf.config.experimental.enable_tensor_float_32_execution(False)  # a GPU's TF32 would round the two differently
adding_up = tf.distribute.ReductionToOneDevice()  # two halves of one chip cannot use NCCL, the usual way
strategy = tf.distribute.MirroredStrategy(names, cross_device_ops=adding_up)
options = tf.data.Options()  # there is only one machine: do not split the data between machines
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF

# %%
# needs: tensorflow
with strategy.scope():
    weights = tf.Variable(tf.random.stateless_normal((64, 10), seed=(0, 1)))
GLOBAL_BATCH = 128
images, labels = split.x_train[:GLOBAL_BATCH], split.y_train[:GLOBAL_BATCH]


def gradient(images, labels):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, images @ weights)
        share = tf.reduce_sum(losses) / GLOBAL_BATCH
    return tape.gradient(share, weights)


# %%
# needs: tensorflow
@tf.function
def on_all(batch):
    each = strategy.run(gradient, args=batch)
    return strategy.reduce(tf.distribute.ReduceOp.SUM, each, axis=None)


batches = tf.data.Dataset.from_tensor_slices((images, labels)).batch(GLOBAL_BATCH).with_options(options)
with runtime.quiet():
    shares = next(iter(strategy.experimental_distribute_dataset(batches)))
    together = on_all(shares)
    alone = gradient(tf.constant(images), tf.constant(labels))
print("rows of each share:", [len(part) for part in strategy.experimental_local_results(shares[0])])

# %%
# needs: tensorflow
difference = float(tf.reduce_max(tf.abs(together - alone)))
largest = float(tf.reduce_max(tf.abs(alone)))
f"{strategy.num_replicas_in_sync} devices: gradients of up to {largest:.2f} agree to within {difference:.1e}"

# %% [markdown]
# They differ only by rounding: two sums of 64 rows added up, against one sum of 128. Lesson 05 does the same on TPUs.

# %% [markdown] tags=["minutes-8", "short-0"]
# ## Exercises
#
# ### 1 · The operation on the wrong device
# Here is a placement log from another program. One operation makes every step slow. Which line?
#
# ```
# 1  MatMul       in device /device:GPU:0
# 2  Relu         in device /device:GPU:0
# 3  StringToNumber in device /device:CPU:0
# 4  PyFunc       in device /device:CPU:0   (on the output of line 2)
# 5  MatMul       in device /device:GPU:0   (on the output of line 4)
# ```

# %% tags=["exercise"]
line = ...
### BEGIN SOLUTION
line = 4  # its input and its output cross between the devices in each step
### END SOLUTION
exercises.check("04.wrong_device", line)

# %% [markdown]
# ### 2 · Order a pipeline
# Put these in order: `"batch"`, `"cache"`, `"decode"`, `"prefetch"`, `"shuffle"`. Each epoch should see
# the single images in a new order, and nothing should be decoded twice.

# %% tags=["exercise"]
order = ...  # a list of five words
### BEGIN SOLUTION
order = ["decode", "cache", "shuffle", "batch", "prefetch"]
### END SOLUTION
exercises.check("04.pipeline", order)

# %% [markdown]
# ### 3 · What fusing saves
# `tf.sin(x) * tf.cos(x) + x` on a large `x`. Eager, each operation reads its inputs from memory and
# writes its result there. Fused, `x` is read once and the result written once. How many times fewer
# bytes?

# %% tags=["exercise"]
times_fewer = ...
### BEGIN SOLUTION
times_fewer = (2 + 2 + 3 + 3) / 2  # sin, cos: read 1, write 1; times, plus: read 2, write 1
### END SOLUTION
exercises.check("04.fusion", times_fewer)

# %% [markdown]
# ### 4 · Open task: halve the pipeline's time
#
# `slow_batches` enlarges one image after another. Write `quick_batches`: the same batches in the same order, in half the time
# or less. The check compares them, then goes over both pipelines several times and times that.

# %% tags=["exercise"]
# needs: tensorflow
more = tf.data.Dataset.from_tensor_slices((split.x_train[:1024], split.y_train[:1024])).with_options(by_hand)


def slow_batches():
    return more.map(enlarge).batch(64)


def quick_batches():
    return ...


### BEGIN SOLUTION
def quick_batches():
    return more.map(enlarge, tf.data.AUTOTUNE).batch(64).cache()  # in parallel, and only once


### END SOLUTION
exercises.check("04.quick_batches", quick_batches, slow_batches=slow_batches)

# %% [markdown] tags=["minutes-2"]
# ## Three things to take away

# %%
# needs: tensorflow
takeaways = {
    "Ask where it ran": f"a device that is not there was replaced: the work ran {outcome}, and nothing said so.",
    "Feed it first": f"the plain pipeline let the step work {training[0]:.0%} of the time, the full one {training[1]:.0%}.",
    "Build a graph once": f"five Python numbers made {wrong_traces} graphs, five tensors made {right_traces}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Put predictions beside results { display-mode: "form" }
guess = reference.Prediction
predicted = {} if "tf" not in globals() else {
    "it_will": guess(it_will, "run" if astray.numpy() == 2 else "fail"),
    "product_runs_on": guess(product_runs_on, where),
    "times_faster": guess(times_faster, pipeline_gain, "×"),
    "fastest_large": guess(fastest_large, best_large),
    "graphs_made": guess(graphs_made, wrong_traces),
}

# %%
# @title Keep them as a record { display-mode: "form" }
value = reference.Value
measured = {} if "tf" not in globals() else {
    "pipeline": value(pipeline_gain, "×", "speed of the full pipeline, the plain one being 1"),
    "starved": value(100 * training[0], "%", "of the time a step trains, fed by the plain pipeline"),
    "fed": value(100 * training[1], "%", "of the time a step trains, fed by the full one"),
    "compiled": value(compiled_gain, "×", f"speed of {best_large}, eager being 1, {NUMBERS:,} numbers"),
    "gradient_gap": value(difference, "", "largest gap between the gradients of two devices and of one"),
} | ({"digits": value(100 * accuracy, "%", "of the test digits right")} if "accuracy" in globals() else {})
reference.record("04_tensorflow_on_gpu", FAST, device=machine, predicted=predicted, **measured)

# %% [markdown] tags=["minutes-0"]
# ## What comes next
#
# One device, two devices, a strategy that splits the work. The next lesson goes on with that: eight devices, and the chip
# that was built for this kind of work, the TPU.
