# %%
# @title Imports { display-mode: "form" }
import io
import os
import time

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from colab_helpers import benchmark, chip_throughput, platform_facts, hardware, runtime

from colab_lessons import exercises, figures, measurements, recorded_outputs
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

recorded_outputs.watch("04_tensorflow_on_gpu")  # where TensorFlow is missing, a recorded output appears

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
SECONDS = None
PHOTOS = None
PASSES = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
SECONDS = SECONDS or (0.1 if FAST else 1)  # per way to run a step
PHOTOS = PHOTOS or (128 if FAST else 2048)  # in an epoch
PASSES = PASSES or (1 if FAST else 2)  # timed epochs per pipeline

# %% [markdown] tags=["minutes-5"]
# ## Where does it run?
#
# TensorFlow uses a GPU if it finds one, and the CPU if it doesn't. Either way your code runs, so ask.

# %%
# needs: tensorflow
with runtime.capture_stderr():  # its C++ part logs a lot while it starts
    import keras
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
tf.get_logger().setLevel("ERROR")
gpus or "TensorFlow sees no GPU"

# %% [markdown]
# If `nvidia-smi` shows a GPU and TensorFlow none, you have a build for CPUs only, or one for a different version of CUDA than your machine has. On
# Colab the second may happen to you.

# %% tags=["nbval-check-output"]
platform_facts.quote("tensorflow-cuda")

# %% [markdown]
# You can choose a device yourself with `tf.device`. The next cell asks for an eighth GPU.

# %%
# @title Cut one device into four, which the last section needs { display-mode: "form" }
# needs: tensorflow
physical = gpus[0] if gpus else tf.config.list_physical_devices("CPU")[0]
with runtime.capture_stderr():
    if gpus:
        tf.config.set_visible_devices(physical, "GPU")
    part = tf.config.LogicalDeviceConfiguration(memory_limit=3072 if gpus else None)  # MiB
    tf.config.set_logical_device_configuration(physical, [part] * 4)
    devices = [device.name.split("/")[-1].removeprefix("device:") for device in tf.config.list_logical_devices(physical.device_type)]
print(f"TensorFlow now treats one {physical.device_type} as four: {', '.join(devices)}")

# %%
# needs: tensorflow
with tf.device("GPU:7"):
    astray = tf.constant(1.0) + 1.0
print(f"no error, the sum is {astray:.0f}, and it was made on {astray.device.split('device:')[-1]}")

# %% [markdown]
# There was no error, because of *soft placement*, which is on by default: where the device you name doesn't exist, TensorFlow chooses one that
# does. A job can run on the CPU all night that way, with results that look the same. If you turn it off, you get an error.

# %%
# needs: tensorflow
tf.config.set_soft_device_placement(False)
try:
    with tf.device("GPU:7"):
        tf.constant(1.0) + 1.0
except (RuntimeError, tf.errors.InvalidArgumentError) as error:
    print(str(error).split(". ")[0])
tf.config.set_soft_device_placement(True)

# %% [markdown]
# A job that names no device still runs where it can, so say what you need in one line, `assert tf.config.list_physical_devices("GPU")`, and ask a
# weight where it is, `model.weights[0].value.device`.
#
# TensorFlow also takes nearly all of a GPU's memory as soon as it starts, and leaves little to PyTorch in the same notebook. Colab sets
# `TF_FORCE_GPU_ALLOW_GROWTH`, so there it doesn't. Elsewhere, call `tf.config.experimental.set_memory_growth(gpu, True)` first.

# %% [markdown] tags=["minutes-9"]
# ## Is it the model, or is it Python?
#
# This training step of a small network for digits can run in three ways. *Eager* means that Python calls each operation, one by one. `tf.function`
# lets Python run once, keeps the operations as a *graph*, and runs that without Python. With `jit_compile=True`, the compiler *XLA* also merges
# operations.


# %%
# needs: tensorflow
def make_step():
    model = keras.Sequential([
        keras.Input((64,)),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(10),
    ])
    optimizer, loss_of = keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(model.trainable_variables)

    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step


# %%
# needs: tensorflow
steps = {
    "eager": make_step(),
    "graph": tf.function(make_step()),
    "XLA": tf.function(make_step(), jit_compile=True),
}

# %% [markdown]
# **Predict.** With 64 images in a batch, how many times as fast is the graph as the eager step?

# %%
graph_gains = None  # @param {type:"number"}

# %%
# @title Does XLA work here? { display-mode: "form" }
# needs: tensorflow
with runtime.capture_stderr():  # XLA introduces itself
    try:
        steps["XLA"](tf.zeros((64, 64)), tf.zeros(64, "int32"))
    except (tf.errors.OpError, RuntimeError) as error:
        del steps["XLA"]  # no compiler for this device
        print(f"XLA does not run here: {str(error)[:120]}")

# %%
# needs: tensorflow
times = {}
for batch_size in (64, 1024):
    images, labels = tf.random.uniform((batch_size, 64)), tf.random.uniform((batch_size,), 0, 10, "int32")
    times[batch_size] = benchmark.compare({way: lambda step=step: step(images, labels) for way, step in steps.items()}, budget=SECONDS)

# %% [markdown]
# Lesson 01's rule, six operations per parameter and image, tells you how long the arithmetic alone would take at the speed of a 1,024² matmul on
# all cores.

# %%
# needs: tensorflow
square = tf.random.normal((1024, 1024))
speed = 2 * 1024**3 / benchmark.measure(lambda: square @ square).best  # operations per second
parameters = 64 * 256 + 256 * 256 + 256 * 10
arithmetic = {batch_size: 6 * parameters * batch_size / speed for batch_size in times}

# %%
# @title Draw the three ways { display-mode: "form" }
# needs: tensorflow
rows = {f"{way}, {n} images, measured": one.best for n, ways in times.items() for way, one in ways.items()}
rows |= {f"arithmetic alone, at a large matmul's speed, {n} images": taken for n, taken in arithmetic.items()}
rows |= {} if gpus else {f"the same on a T4, {n} images": 6 * parameters * n / chip_throughput.rates("T4")["fp32"].value for n in times}
gains = {n: ways["eager"].best / ways["graph"].best for n, ways in times.items()}
figures.dot_plot(
    {name: rows[name] for name in sorted(rows, key=lambda name: "1024" in name)}, unit="s", xlabel="time for one training step",
    title=f"With 64 images the graph runs at {gains[64]:.0f}× the speed of eager{your_prediction(graph_gains, '×')}",
)

# %% [markdown]
# The distance from eager to graph is Python, which calls dozens of operations per step. A T4 would do the arithmetic in microseconds, and then wait
# for Python as long as your CPU does, so no GPU shortens that part. From the graph to the arithmetic there is a second distance without any Python
# in it: TensorFlow still schedules dozens of operations per step, Adam goes through all the weights, and matmuls as small as these run far below
# the speed of a large one. On a GPU that distance would be launches.
#
# `fit` builds the graph for you, and on a single GPU it uses XLA, too, if every layer supports it. You lose this in two ways. One is
# `run_eagerly=True`, which people set to find a bug and then forget. The other is a loop of your own without `tf.function`.

# %% [markdown] tags=["minutes-4"]
# ## A graph too many
#
# A graph can also be built again without your noticing. In the next cell a list in the body of the function counts how often Python runs it, which
# happens only when TensorFlow builds a graph. That is called *tracing*.
#
# **Predict.** How many graphs do five calls with five Python numbers build?

# %%
graphs_made = None  # @param {type:"integer"}

# %%
# needs: tensorflow
traces = []


@tf.function
def power(x):
    traces.append(x)  # runs only while a graph is built
    return x * x


for n in range(5):
    power(n)  # WRONG: Python numbers
wrong_traces = len(traces)
traces.clear()
for n in range(5):
    power(tf.constant(n))  # RIGHT: tensors
print(f"{wrong_traces} graphs for five Python numbers{your_prediction(graphs_made)}, {len(traces)} for five tensors")

# %% [markdown]
# A Python number is part of the program, so a new number is a new program. A tensor is data. If your step takes the learning rate or the step's
# number as an argument, make it a tensor.

# %% [markdown] tags=["minutes-12"]
# ## The input pipeline
#
# Often neither the model nor Python is slow, but the *input pipeline*, which reads, decodes and batches the data. The photos below are JPEG files,
# in memory so that no disk counts. `tf.data` decodes them, takes a random crop, and makes batches.

# %%
# @title Make the JPEG files from scikit-learn's two photos { display-mode: "form" }
photos, random = load_sample_images().images, np.random.default_rng(0)
files = []
for i in range(64):
    top, left = random.integers(0, 43), random.integers(0, 128)
    file = io.BytesIO()
    Image.fromarray(photos[i % 2][top : top + 384, left : left + 512]).save(file, "JPEG", quality=90)
    files.append(file.getvalue())
files = files * (PHOTOS // len(files))
f"{len(files)} files of about {len(files[0]) // 1000} kB, 512 × 384 pixels"


# %%
# needs: tensorflow
def decode(file, label):
    image = tf.io.decode_jpeg(file, channels=3)
    return tf.cast(tf.image.resize(image, (128, 128)), tf.uint8), label  # (128, 128, 3), bytes


def crop(image, label):
    return tf.cast(tf.image.random_crop(image, (112, 112, 3)), tf.float32) / 255, label


# %% [markdown]
# The same pipeline can be built in four ways. `map` can run in parallel, `prefetch` makes the next batch while this one trains, and `cache` keeps
# what it has seen. The first turns off what TensorFlow adds by itself.

# %%
# needs: tensorflow
auto, bare = tf.data.AUTOTUNE, tf.data.Options()
bare.autotune.enabled = bare.experimental_optimization.apply_default_optimizations = False
source = tf.data.Dataset.from_tensor_slices((files, [i % 2 for i in range(len(files))]))
feeds = {
    "one by one": source.map(decode).map(crop).batch(32).with_options(bare),
    "TensorFlow's defaults": source.map(decode).map(crop).batch(32),
    "parallel, prefetched": source.map(decode, auto).map(crop, auto).batch(32).prefetch(auto),
    "decoded once": source.map(decode, auto).cache().map(crop, auto).batch(32).prefetch(auto),
}
batch = next(iter(feeds["TensorFlow's defaults"]))
feeds["one batch, repeated"] = tf.data.Dataset.from_tensors(batch).repeat(PHOTOS // 32)

# %%
# needs: tensorflow
network = keras.Sequential([
    keras.Input((112, 112, 3)),
    keras.layers.Conv2D(16, 7, strides=4, activation="relu"),
    keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(2),
])
network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

# %% [markdown]
# **Predict.** How many times as fast does `fit` run when each photo is decoded once, compared with TensorFlow's defaults?

# %%
caching_gains = None  # @param {type:"number"}

# %%
# needs: tensorflow
epochs = {name: [] for name in feeds}
with runtime.capture_stderr():
    for _ in range(1 + PASSES):  # alternating; the first pass compiles, and fills the caches
        for name, feed in feeds.items():
            start = time.perf_counter()
            network.fit(feed, shuffle=False, verbose=0)
            benchmark.synchronize()
            epochs[name].append(time.perf_counter() - start)

# %%
# @title Draw the pipelines { display-mode: "form" }
# needs: tensorflow
timed = {name: each[1:] for name, each in epochs.items()}
gain = min(timed["TensorFlow's defaults"]) / min(timed["decoded once"])
figures.bars(
    {name: PHOTOS / min(each) for name, each in timed.items()}, unit="photos/s",
    title=f"Decoded once, the photos run through fit at {gain:.1f}× the speed of TensorFlow's defaults{your_prediction(caching_gains, '×')}",
)

# %% [markdown]
# The second and third bars are about the same, because TensorFlow adds parallel decoding and prefetching by itself. With that, all cores are busy.
# They can't decode any faster, so decode each photo only once.
#
# The bar of one repeated batch is the ceiling, since nothing is decoded there (on a GPU each step still copies that batch). It belongs to a tiny
# network. A large one on a T4 may need fewer photos per second than the defaults deliver, and then the pipeline isn't the bottleneck, so measure
# both bars.
#
# Put `cache` after the work that's the same each time, and before anything random. If the photos don't fit in memory, shrink them once and store
# them shrunk.
#
# Lesson 03's two clocks show how this looks from inside the training.


# %%
# needs: tensorflow
def watch(feed):
    spans, start = [], time.perf_counter()
    begin = start
    for images, labels in feed.take(40):
        arrived = time.perf_counter()
        network.train_on_batch(images, labels)
        benchmark.synchronize()
        end = time.perf_counter()
        spans += [(begin - start, arrived - start, "waits for data"), (arrived - start, end - start, "trains")]
        begin = end
    return spans


# %%
# needs: tensorflow
with runtime.capture_stderr():
    watch(feeds["decoded once"])  # warm up
    watched = {name: watch(feeds[name]) for name in ("one by one", "TensorFlow's defaults", "decoded once")}


# %%
# @title Draw who waits { display-mode: "form" }
# needs: tensorflow
def training(name):  # share of fit's own time, from the bars above
    return min(1.0, min(timed["one batch, repeated"]) / min(timed[name]))


def steady(spans, steps):  # after the start of the pipeline, and the clock from zero
    skipped = 2 * min(8, len(spans) // 8)
    chosen = spans[skipped : skipped + 2 * steps]
    return [(begin - chosen[0][0], end - chosen[0][0], what) for begin, end, what in chosen]


starved, fed = training("one by one"), training("decoded once")
figures.activity_timeline(
    {name: {"": steady(spans, 4)} for name, spans in watched.items()},
    title=f"Training is {starved:.0%} of fit's time one by one, {fed:.0%} decoded once",
)

# %% [markdown]
# The percentages come from the bars above: one repeated batch is all training. Each lane shows four steps of `train_on_batch`, so its shares differ
# from those. In the middle lane, decoding competes with training for the cores, so each step takes longer. On a GPU the slivers get thinner and the
# gaps stay. That's what "GPU at 5%" looks like, and a bigger GPU doesn't cure it.

# %% [markdown] tags=["minutes-7"]
# ## Four devices, one batch
#
# With several devices, each takes its share of the batch, and the gradients are added up. In TensorFlow a *strategy* does that. At the start of
# this notebook one device was cut into four. They share its speed, so nothing gets faster, but they compute the same sums as four real ones would.

# %%
# needs: tensorflow
tf.config.experimental.enable_tensor_float_32_execution(False)  # a GPU would round the two sides differently
adding_up = tf.distribute.ReductionToOneDevice()  # four parts of one chip can't use NCCL, the usual way
strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=adding_up)
with strategy.scope():
    weights = tf.Variable(tf.zeros((64, 10)))  # a copy on each device
images, labels = tf.random.uniform((128, 64)), tf.random.uniform((128,), 0, 10, "int32")


# %%
# needs: tensorflow

def share(tensor):  # 32 of the 128 rows per device
    return strategy.experimental_distribute_values_from_function(lambda context: tf.split(tensor, 4)[context.replica_id_in_sync_group])


def gradient(images, labels, rows):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, images @ weights)
        loss = tf.reduce_sum(losses) / rows
    return tape.gradient(loss, weights)  # (64, 10)


# %%
# needs: tensorflow
@tf.function
def on_four_devices(images, labels, rows):
    each = strategy.run(gradient, args=(images, labels, rows))
    return strategy.reduce("SUM", each, axis=None)


# %% [markdown]
# Each device has 32 of the 128 rows. **Predict.** If each divides its loss by its own 32 rows, how many times too large is the sum of the gradients?

# %%
too_large = None  # @param {type:"number"}

# %%
# needs: tensorflow
with runtime.capture_stderr():
    alone = gradient(images, labels, 128.0)  # one device, all rows
    wrong = on_four_devices(share(images), share(labels), tf.constant(32.0))  # WRONG: its own rows
    right = on_four_devices(share(images), share(labels), tf.constant(128.0))  # RIGHT: the global batch
factor = float(tf.norm(wrong) / tf.norm(alone))
gap = float(tf.reduce_max(tf.abs(right - alone)) / tf.reduce_max(tf.abs(alone)))
print(f"divided by 32, the gradient is {factor:.2f}× too large{your_prediction(too_large, '×')}; divided by 128, it differs by {gap:.0e} of its largest element")

# %% [markdown]
# Nothing fails when you divide by the wrong number. With plain gradient descent each step is four times too long. Adam hides it, because it divides
# by the gradient's size, until you clip gradients. Keras does it right: make and compile the model inside `strategy.scope()`, and call `fit` with
# batches of the global size.

# %% [markdown] tags=["minutes-7"]
# ## Exercises
#
# ### 1 · What is slow?
#
# Your `fit` sees 900 images per second. With one batch repeated, it sees 6,000. What percentage of the time does it wait for data, if loading and
# training alternate?

# %% tags=["exercise"]
percent_waiting = ...
### BEGIN SOLUTION
percent_waiting = 100 * (1 / 900 - 1 / 6000) / (1 / 900)  # seconds per image
### END SOLUTION
exercises.check("04.waits", percent_waiting)

# %% [markdown]
# ### 2 · Order a pipeline
#
# Put these in order: `"batch"`, `"cache"`, `"decode"`, `"prefetch"`, `"shuffle"`. Each epoch should see the images one by one in a new order, and
# nothing should be decoded twice.

# %% tags=["exercise"]
order = ...  # a list of five words
### BEGIN SOLUTION
order = ["decode", "cache", "shuffle", "batch", "prefetch"]
### END SOLUTION
exercises.check("04.pipeline", order)

# %% [markdown]
# ### 3 · Global batch
#
# Four replicas, 96 rows each, and plain SGD. The learning rate 0.1 was right for a batch of 128. Give the global batch, and the learning rate by
# the linear rule: it grows in proportion to the batch.

# %% tags=["exercise"]
plan = {"global batch": ..., "learning rate": ...}
### BEGIN SOLUTION
plan = {"global batch": 4 * 96, "learning rate": 0.1 * 4 * 96 / 128}  # three times the batch, three times the rate
### END SOLUTION
exercises.check("04.global_batch", plan)

# %% [markdown]
# ### 4 · Open task, halve the pipeline's time
#
# `slow_batches` decodes each file again in every pass. Write `quick_batches`: the same batches in the same order, in half the time or less. The
# check goes over both several times.

# %% tags=["exercise"]
# needs: tensorflow
some = source.take(256)


def slow_batches():
    return some.map(decode).batch(32)


def quick_batches():
    return ...


### BEGIN SOLUTION
def quick_batches():
    return some.map(decode, tf.data.AUTOTUNE).batch(32).cache()  # each file only once


### END SOLUTION
exercises.check("04.quick_batches", quick_batches, slow_batches=slow_batches)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
# needs: tensorflow
takeaways = {
    "Ask where it ran": "a GPU that isn't there was replaced by one that is, or by the CPU, and nothing said so.",
    "Don't let Python sit between the operations": f"the graph ran at {gains[64]:.0f}× the speed with 64 images, {gains[1024]:.1f}× with 1,024.",
    "Decode once": f"with this tiny network, fit ran at {gain:.1f}× the speed of TensorFlow's defaults.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = measurements.Value, measurements.Prediction, hardware.list_devices()
predicted, measured = {}, {}
if "gain" in globals():
    predicted = {
        "graph_gains": guess(graph_gains, gains[64], "×"),
        "graphs_made": guess(graphs_made, wrong_traces),
        "caching_gains": guess(caching_gains, gain, "×"),
        "too_large": guess(too_large, factor, "×"),
    }
    measured = {
        "graph": value(gains[64], "×", "speed of a graph's step, eager being 1, 64 images"),
        "graph_large": value(gains[1024], "×", "the same, 1,024 images"),
        "decoded_once": value(gain, "×", "speed of fit when photos are decoded once, TensorFlow's defaults being 1"),
        "starved": value(100 * starved, "%", "of fit's time is training when photos are decoded one by one"),
        "fed": value(100 * fed, "%", "of fit's time is training when they are decoded once"),
        "graphs": value(wrong_traces, "", "graphs for five Python numbers"),
        "loss_wrong": value(factor, "×", "size of a gradient whose losses are divided by a device's own rows"),
        "gradient_gap": value(gap, "", "largest gap between the gradients of four devices and of one"),
    }
measurements.record(
    "04_tensorflow_on_gpu", FAST, device=inventory.main if "gpus" in globals() and gpus else inventory.cpu, predicted=predicted, **measured
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# assert tf.config.list_physical_devices("GPU"), "no GPU"
#
# photos = (
#     tf.data.Dataset.from_tensor_slices((files, labels))
#     .map(decode, tf.data.AUTOTUNE)  # yours: tf.io.read_file, tf.io.decode_jpeg, tf.image.resize
# )
# one = photos.take(64).map(crop).batch(64).cache().repeat(len(photos) // 64)  # before shuffle fills its buffer
# feed = (
#     photos.cache()  # after what is the same each time
#     .shuffle(10_000)
#     .map(crop, tf.data.AUTOTUNE)  # random, so behind the cache
#     .batch(64)
#     .prefetch(tf.data.AUTOTUNE)
# )
#
# def fit(batches, epochs):
#     model = build()  # yours
#     model.compile("adam", loss)  # no run_eagerly
#     return model.fit(batches, epochs=epochs)
#
# fit(one, epochs=3)
# fit(feed, epochs=3)  # compare the last epochs: if the first one is much faster, it's the pipeline
# ```
#
# Lesson 05 is about a chip that needs whole graphs and large batches: the TPU.
