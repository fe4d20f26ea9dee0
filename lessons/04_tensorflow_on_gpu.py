# %%
import os
import subprocess
import sys

from colab_helpers import benchmark, facts, figures, hardware, runtime
from colab_helpers.lessons import data, exercises, reference, replay

replay.watch("04_tensorflow_on_gpu")  # cells that need what is missing show recorded results
measured, machine = {}, hardware.list_devices().cpu

# %% tags=["parameters"]
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS_PER_POINT = 0.5  # time budget of one measurement

# %% [markdown]
# ## Start quietly
#
# TensorFlow's C++ part talks while it starts. `runtime.quiet` keeps that back unless the start fails.
# No TensorFlow here, as on Colab's TPU machine? Then you see recorded results, and each says so.

# %%
# needs: tensorflow
with runtime.quiet():
    import tensorflow as tf
tf.get_logger().setLevel("ERROR")
budget = 0.05 if FAST else SECONDS_PER_POINT
tf.__version__

# %% [markdown]
# ## See the devices
#
# *Physical* devices are what is there. TensorFlow can split one into several *logical* devices, if you
# say so before it first computes. Do that now: it gives you two accelerators, on a GPU of 2 GiB each.

# %%
# needs: tensorflow
with runtime.quiet():
    physical = tf.config.list_physical_devices("GPU") or tf.config.list_physical_devices("CPU")
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
# With a GPU, two slices of it are the accelerators. Without one, three CPU devices: the first plays the
# host, the others play accelerators. They are real to TensorFlow: each has its own queue and name.

# %%
# needs: tensorflow
host = tf.config.list_logical_devices("CPU")[0].name
accelerators = [device.name for device in logical if device.name != host][-2:]
host, accelerators

# %% [markdown]
# ## Two answers to one question
#
# The driver may know a GPU that TensorFlow cannot use. Ask both, and ask what TensorFlow was built for.

# %%
# needs: tensorflow
device = hardware.list_devices().accelerator
build = tf.sysconfig.get_build_info()
answers = {
    "the driver sees": device.name if device and device.kind == "GPU" else "no GPU",
    "TensorFlow sees": [gpu.name for gpu in tf.config.list_physical_devices("GPU")] or "no GPU",
    "built for CUDA": build.get("cuda_version", "not at all"),
}
answers

# %% [markdown]
# "no GPU" in both: there is none. A GPU above and "no GPU" below: this TensorFlow was built without CUDA
# (or for no GPU of this kind), or it looks for another version of CUDA's libraries.

# %% tags=["nbval-check-output"]
facts.quote("tensorflow-cuda")

# %% [markdown]
# ## Where does work happen?
#
# By itself TensorFlow prefers a GPU. Every tensor tells where it lives.

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
# **Predict.** Does the line fail, or run?

# %%
it_will = "fail"  # @param ["fail", "run"]

# %%
# needs: tensorflow
with tf.device("GPU:7"):
    astray = tf.constant(1.0) + 1.0
f"it ran on {astray.device.split('/')[-1]}; you said it will {it_will}"

# %% [markdown]
# ### RIGHT: forbid it, and read the error
#
# *Soft placement* is on by default: the work quietly ran elsewhere. Turned off, TensorFlow speaks.

# %%
# needs: tensorflow
tf.config.set_soft_device_placement(False)
try:
    with tf.device("GPU:7"):
        message = tf.constant(1.0) + 1.0
except (RuntimeError, tf.errors.InvalidArgumentError) as error:
    message = str(error).split(". ")[0][:150]
tf.config.set_soft_device_placement(True)
message

# %% [markdown]
# ## The placement log
#
# `set_log_device_placement` names the device of every operation. It writes to the process's error
# stream, so a process of its own runs here, with two CPU devices; you see the last lines (names that begin
# with `_` are TensorFlow's own). The product runs on the first device though its input lies on the second:
# TensorFlow copies it.

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

# %% [markdown]
# ## The digits again
#
# The same images, the same network, the same optimiser as in lesson 03. In Keras 3 the input shape is
# a layer of its own: `keras.Input`.

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
model.compile(optimizer="adam", loss=loss, metrics=["accuracy"], jit_compile=False)  # XLA comes later

# %%
# needs: tensorflow, keras
epochs = 5 if FAST else 30
history = model.fit(split.x_train, split.y_train, batch_size=64, epochs=epochs, verbose=0)
accuracy = model.evaluate(split.x_test, split.y_test, verbose=0)[1]
measured["digits"] = reference.Value(100 * accuracy, "%", "of the test digits right")
figures.lines(
    range(1, epochs + 1), {"training loss": history.history["loss"]},
    title=f"{accuracy:.1%} of the test digits are right", xlabel="epoch", ylabel="loss",
)

# %% [markdown]
# Beside it, what lesson 03 recorded with PyTorch. The starting weights differ, so a point or two may
# lie between them; more would be a mistake in one of the two.

# %%
for record in reference.load("03_pytorch_on_gpu"):
    print(f"PyTorch on {record.label}: {record.values['digits']} of the test digits right")

# %% [markdown]
# ## A pipeline, one step at a time
#
# `tf.data` prepares batches. Preparing (*decoding*, with real photographs) is slow here on purpose: each
# image is enlarged and its brightness changed. Two of the steps below TensorFlow would take by itself;
# they are turned off, so that you see them.
#
# **Predict.** How many times faster than the plain pipeline is the one with all steps?

# %%
times_faster = 10  # @param {type:"number"}

# %%
# needs: tensorflow
def enlarge(image, label):
    image = tf.image.resize(tf.reshape(image, (8, 8, 1)), (160, 160), method="bicubic")
    return image, label


def brighten(image, label):
    return tf.image.random_brightness(image, 0.2), label


count = 64 if FAST else 640
by_hand = tf.data.Options()
by_hand.experimental_optimization.map_parallelization = False
by_hand.experimental_optimization.inject_prefetch = False
rows = split.x_train[:count], split.y_train[:count]
source = tf.data.Dataset.from_tensor_slices(rows).with_options(by_hand)

# %%
# needs: tensorflow
cores = os.cpu_count()
pipelines = {
    "plain": source.map(enlarge).map(brighten).batch(64),
    "+ parallel map": source.map(enlarge, cores).map(brighten, cores).batch(64),
    "+ cache": source.map(enlarge, cores).cache().map(brighten, cores).batch(64),
    "+ shuffle": source.map(enlarge, cores).cache().shuffle(2000).map(brighten, cores).batch(64),
}
pipelines["+ prefetch"] = pipelines["+ shuffle"].prefetch(2)

# %%
# needs: tensorflow
projection = tf.random.normal((160 * 160, 64))


def epoch(pipeline):
    for images, _ in pipeline:
        step = tf.reshape(images, (-1, 160 * 160)) @ projection  # stands for a training step
    return step


seconds = {}
with runtime.quiet():  # some versions report the end of each pass
    for name, pipeline in pipelines.items():
        seconds[name] = benchmark.measure(lambda: epoch(pipeline), budget=4 * budget).median
gain = seconds["plain"] / seconds["+ prefetch"]
measured["pipeline"] = reference.Value(gain, "×", "faster: all steps, against the plain pipeline")
figures.bars(
    seconds, unit="s", title=f"All steps together: {gain:.1f} times as fast (you said {times_faster:g})"
)

# %% [markdown]
# `cache` saves what is the same each time, so it stands behind decoding and before anything random.
# `shuffle` mixes single images, so it stands before `batch`. `prefetch` prepares while the step runs, so
# it stands last; it pays where step and preparation use different chips.

# %% [markdown]
# ## Eager, graph, XLA
#
# *Eager*: Python calls each operation. `tf.function`: Python builds a graph once. `jit_compile=True`:
# the XLA compiler fuses the graph into fewer passes over memory.

# %%
# needs: tensorflow
def curve_of(x):
    return tf.sin(x) * tf.cos(x) + x**2 * tf.sigmoid(x)


ways = {
    "eager": curve_of,
    "graph": tf.function(curve_of),
    "XLA": tf.function(curve_of, jit_compile=True),
}
large = tf.random.normal((10**6 if FAST else 10**7,))
small = tf.random.normal((16,))

# %% [markdown]
# **Predict.** Which way wins for 16 numbers?

# %%
fastest_small = "eager"  # @param ["eager", "graph", "XLA"]

# %%
# needs: tensorflow
with runtime.quiet():  # XLA introduces itself
    try:
        ways["XLA"](small)
    except (tf.errors.OpError, RuntimeError) as error:
        del ways["XLA"]  # no compiler for this device
        print(f"XLA does not run here: {str(error)[:120]}")
    timed = {
        f"{case}, {way}": benchmark.measure(lambda: function(x), budget=budget).median
        for case, x in {"large": large, "16 numbers": small}.items()
        for way, function in ways.items()
    }
best_large, best_small = (
    min(ways, key=lambda way: timed[f"{case}, {way}"]) for case in ("large", "16 numbers")
)
gain = timed["large, eager"] / timed[f"large, {best_large}"]
measured["compiled"] = reference.Value(gain, "×", f"as fast as eager, large: {best_large}")
figures.bars(
    timed, unit="s", log=True,
    title=f"Large: {best_large} is best, {gain:.1f}×. Small: {best_small} (you said {fastest_small})",
)

# %% [markdown]
# On much data a graph saves too: it reuses memory and runs independent operations at once. Fusing saves
# trips to memory on top; whether XLA's program wins depends on the device. On little data you time the
# call itself, and small gaps mean nothing.
#
# ### WRONG: call a graph with Python numbers
#
# Each new Python value is a new graph: TensorFlow builds ("traces") it again.

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
wrong_traces

# %% [markdown]
# ### RIGHT: call it with tensors

# %%
# needs: tensorflow
traces.clear()
for n in range(5):
    square(tf.constant(n))
right_traces = len(traces)
right_traces

# %% [markdown]
# ## Memory: grow, or a limit
#
# By itself TensorFlow takes nearly all memory of a GPU at once, and PyTorch beside it gets none. Colab
# sets an environment variable that makes it *grow* instead. Elsewhere, before first use:
# `tf.config.experimental.set_memory_growth(gpu, True)`, or a limit as above. Either, not both.

# %%
# needs: tensorflow
grows = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "not set")
limits = tf.config.get_logical_device_configuration(physical[0])
try:
    in_use = tf.config.experimental.get_memory_info(accelerators[0].split("/")[-1].removeprefix("device:"))
except ValueError as error:
    in_use = str(error)
{"TF_FORCE_GPU_ALLOW_GROWTH": grows, "limit in MiB": [one.memory_limit for one in limits], "in use": in_use}

# %% [markdown]
# On a GPU the limit is hard: past it you get an out-of-memory error though the chip has more. On CPU
# devices TensorFlow counts, but sets no limit.

# %% [markdown]
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
# ## Let a strategy split
#
# `MirroredStrategy` keeps a copy of the model on each device, gives each its share of the batch, and
# adds the gradients up. So the loss of each share is divided by the *whole* batch: the sum is then the
# mean over all rows. (`AutoShardPolicy.OFF`: the rows come from one source, not from many files.)

# %%
# needs: tensorflow
tf.config.experimental.enable_tensor_float_32_execution(False)  # a GPU's TF32 would round the two differently
strategy = tf.distribute.MirroredStrategy([name.split("/")[-1].removeprefix("device:") for name in accelerators])
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


options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
batches = tf.data.Dataset.from_tensor_slices((images, labels)).batch(GLOBAL_BATCH).with_options(options)
with runtime.quiet():
    together = on_all(next(iter(strategy.experimental_distribute_dataset(batches))))
    alone = gradient(tf.constant(images), tf.constant(labels))

# %%
# needs: tensorflow
difference = float(tf.reduce_max(tf.abs(together - alone)))
measured["gradient_gap"] = reference.Value(difference, "", "largest gap: gradient of two devices and one")
f"{strategy.num_replicas_in_sync} devices, gradients equal: {difference < 1e-6} (gap {difference:.1e})"

# %% [markdown]
# Equal but for rounding: two sums of 64 added, against one sum of 128. Lesson 05 does the same on TPUs.

# %% [markdown]
# ## Exercises
#
# ### 1 · The operation on the wrong device
# A placement log of somebody else. One operation makes every step slow. Which line?
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
# another order of single images, and nothing should be decoded twice.

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
# ## What you measured

# %%
reference.record("04_tensorflow_on_gpu", FAST, device=machine, **measured)

# %% [markdown]
# ## What comes next
#
# TensorFlow splits work over devices by a strategy. TPUs are where strategies come from, and what
# JAX does there today is simpler.
