# %%
# @title Imports { display-mode: "form" }
import os
import signal
import tempfile
import time

import numpy as np
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from colab_helpers import benchmark, expected, hardware, published

from colab_lessons import exercises, figures, ranks, reference, replay

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
BATCHES = None
WIDTH = None
BYTES = None
MESSAGES = None
REPEATS = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
BATCHES = BATCHES or [2**k for k in range(1, 8 if FAST else 12)]  # batch sizes, each twice the one before
WIDTH = WIDTH or (256 if FAST else 1024)  # of the network that two workers train
BYTES = BYTES or [4**k for k in range(1, 11 if FAST else 14)]  # of a message
MESSAGES = MESSAGES or (50 if FAST else 500)  # small tensors whose gradients are sent
REPEATS = REPEATS or (2 if FAST else 4)  # of each timed piece of work

# %%
replay.watch("11_many_devices")  # where processes can't talk to each other, recorded results appear
gpus = torch.cuda.device_count() if torch.cuda.is_available() and dist.is_nccl_available() else 0
where = f"{gpus} GPUs" if gpus > 1 else "processes on the CPU, one thread each"
print(f"The workers of this lesson: {where}")

# %% [markdown] tags=["minutes-10", "short-9"]
# ## Two workers, one training
#
# Colab lends you one GPU, so most people meet this on Kaggle's two T4s or on a rented machine. But nothing in it needs a GPU. Two Python processes with one CPU core each have the same problem, and PyTorch talks to them with the same calls.
#
# Here's the training step that they share. Each worker has a copy of the network and takes half of the batch. `DistributedDataParallel` averages their gradients before the optimizer steps, so both copies stay equal.

# %%
def network(width):
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU())))


def fastest(work):
    work()  # warm up
    times = []
    for _ in range(REPEATS):
        dist.barrier()  # start together
        start = time.perf_counter()
        work()
        benchmark.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


# %%
def train(rank, device):
    n, model, seconds = dist.get_world_size(), network(WIDTH).to(device), []
    if n > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in BATCHES:
        x = torch.rand(batch // n, WIDTH, device=device)  # this worker's share

        def step():
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        seconds.append(fastest(step))
    return seconds


# %% [markdown]
# `ranks.run` starts a function in new processes, as `torchrun` starts a file. Each process gets its number, the *rank*, and joins a group in which all can talk. It ends with this notebook.
#
# **Predict.** Two workers share each batch. From what batch size on are they faster than one alone?

# %%
wins_from = None  # @param {type:"integer"}

# %%
alone = ranks.run(train, n=1)[0]
together = ranks.run(train, n=2)[0]
speedup = [one / two for one, two in zip(alone, together)]
win = next((batch for batch, gain in zip(BATCHES, speedup) if gain > 1), BATCHES[-1])

# %%
# @title Draw the speed-up { display-mode: "form" }
guess = f" (you said {wins_from:,})" if wins_from else ""
figures.lines(
    BATCHES, {"two workers, measured": speedup}, ideal={"twice as fast": [2] * len(BATCHES), "as fast as one": [1] * len(BATCHES)},
    title=f"Two workers beat one from a batch of {win}{guess}", xlabel="rows in the batch", ylabel="times as fast as one", doubling=True,
)

# %% [markdown] tags=["minutes-9", "short-8"]
# On the left two workers take *longer* than one, and on the right they come close to twice as fast. It's the same network and the same code. So what do they spend the time on?
#
# ## What a message costs
#
# They talk. Let's send messages back and forth, from four bytes to many megabytes.

# %%
def talk(rank, device):
    seconds = []
    for size in BYTES:
        x = torch.ones(size // 4, device=device)

        def there_and_back():
            for _ in range(5):
                dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
                dist.recv(x, 1) if rank == 0 else dist.send(x, 0)

        seconds.append(fastest(there_and_back) / 10)
    return seconds


# %%
took = ranks.run(talk)[0]
latency, per_byte = took[0], (took[-1] - took[-2]) / (BYTES[-1] - BYTES[-2])
print(f"{1e6 * latency:.0f} µs for the smallest message, and {1e-9 / per_byte:.1f} GB/s for large ones")

# %%
# @title Draw time over size { display-mode: "form" }
figures.lines(
    BYTES, {"one message, measured": took}, ideal={"latency + bytes / bandwidth": [latency + size * per_byte for size in BYTES]},
    title="Below some size all messages take the same time", xlabel="size of the message", ylabel="seconds", log=True, units=("B", "s"),
)

# %% [markdown]
# The left is flat: a message of four bytes takes as long as one of a few thousand. That's the *latency*. On the right the time grows with the bytes, and their slope is the *bandwidth*. Two numbers describe a link.
#
# A network has many tensors, and each has a gradient. An *all-reduce* adds up what all workers have, and gives everybody the sum. You can call it for every tensor, or copy them all into one *bucket* first and call it once.
#
# **Predict.** How many times longer do 500 small all-reduces take than a single one with the same bytes?

# %%
times_longer = None  # @param {type:"number"}

# %%
def reduce(rank, device):
    gradients = [torch.ones(1000, device=device) for _ in range(MESSAGES)]

    def one_by_one():
        for gradient in gradients:
            dist.all_reduce(gradient)

    def in_a_bucket():
        bucket = torch.cat(gradients)
        dist.all_reduce(bucket)
        return bucket.split(1000)

    return fastest(one_by_one), fastest(in_a_bucket)


# %%
one_by_one, in_a_bucket = ranks.run(reduce)[0]
bucket_gain = one_by_one / in_a_bucket
print(f"{MESSAGES} calls {1e3 * one_by_one:.0f} ms, one bucket {1e3 * in_a_bucket:.2f} ms: {bucket_gain:.0f}× faster")

# %% [markdown] tags=["minutes-9", "short-7"]
# Each call pays the latency again. That's why `DistributedDataParallel` collects gradients into buckets of 25 MB. It sends the first bucket while the backward pass still computes the rest.
#
# ## A ring
#
# How do many workers add up their gradients? If all of them sent everything to one, its link would be the bottleneck. So they stand in a ring, and each cuts its gradient into n parts. In every step each worker sends one part to its right neighbor, and receives one from the left.

# %%
def ring_step(parts, rank, n, step):
    give, take = (rank - step) % n, (rank - step - 1) % n
    inbox = torch.empty_like(parts[take])
    both = [dist.P2POp(dist.isend, parts[give], (rank + 1) % n), dist.P2POp(dist.irecv, inbox, (rank - 1) % n)]
    for request in dist.batch_isend_irecv(both):
        request.wait()
    if step < n - 1:
        parts[take].add_(inbox)  # first round: add
    else:
        parts[take].copy_(inbox)  # second round: pass the sums on


def ring_all_reduce(x, rank, n):
    parts = list(x.chunk(n))
    for step in range(2 * (n - 1)):
        ring_step(parts, rank, n, step)


# %% [markdown]
# Is that all? Let's compare it with the library's on the gradients of our network, and watch four workers that start with a 1 in each part.

# %%
def ring(rank, device):
    n = dist.get_world_size()
    x = torch.randn(3 * WIDTH * (WIDTH + 1), generator=torch.Generator().manual_seed(rank)).to(device)
    y = x.clone()
    ring_all_reduce(x, rank, n)
    dist.all_reduce(y)
    gap = (x - y).abs().max().item()
    return gap, fastest(lambda: ring_all_reduce(x, rank, n)), fastest(lambda: dist.all_reduce(y))


def watch(rank, device):
    n = dist.get_world_size()
    parts = list(torch.ones(n, device=device).chunk(n))
    seen = [[int(part) for part in parts]]
    for step in range(2 * (n - 1)):
        ring_step(parts, rank, n, step)
        seen.append([int(part) for part in parts])
    return seen


# %%
ring_gap, by_hand, by_library = ranks.run(ring)[0]
print(f"by hand {1e3 * by_hand:.1f} ms, the library {1e3 * by_library:.1f} ms, largest difference {ring_gap:.1g}")
seen = ranks.run(watch, n=4)

# %%
# @title Draw the ring { display-mode: "form" }
figures.ring(np.array(seen), title="Three steps to add, three to pass the sums on")

# %% [markdown]
# Each row is a worker, and each column a part of the gradient. The number says how many workers' gradients are in it. After three steps every part is complete somewhere, and three more steps bring it everywhere.
#
# **Predict.** With 8 workers instead of 2, how much more does each of them send? Give a factor.

# %%
bytes_with_8 = None  # @param {type:"number"}

# %%
def sent(n):  # of the gradient's bytes, by each worker
    return 2 * (n - 1) / n


grows = sent(8) / sent(2)
print(*(f"{n:>5} workers: each sends {sent(n):.2f} times the gradient" for n in (2, 4, 8, 1024)), sep="\n")

# %% [markdown] tags=["minutes-7", "short-6"]
# A ring of a thousand sends hardly more than one of eight. Only the number of steps grows, and each step has its latency.
#
# ## So why isn't it twice as fast?
#
# Now you can predict the first figure. Each worker computes as long as one alone with *half* the batch. Then both wait for the all-reduce, and you've just measured how long that takes.

# %%
halves = [float("nan"), *alone[:-1]]  # one alone, with half of the batch
predicted = [one / (half + by_library) for one, half in zip(alone, halves)]
off = max(abs(p / s - 1) for p, s in zip(predicted[1:], speedup[1:]))

# %%
# @title Draw it again, with the prediction { display-mode: "form" }
figures.lines(
    BATCHES, {"two workers, measured": speedup}, ideal={"predicted: half the batch, then one all-reduce": predicted, "as fast as one": [1] * len(BATCHES)},
    title="One measured number explains the curve", xlabel="rows in the batch", ylabel="times as fast as one", doubling=True,
)

# %% [markdown]
# The dashed line comes from one worker alone and one measured all-reduce. It's a little too high, since it leaves out that DDP copies gradients into buckets.
#
# A gradient is as large for 2 rows as for 2,000. So the message stays the same, and only the work per message grows with the batch. Two workers pay off when there's enough to compute between two messages.
#
# How much is enough on real links? A parameter costs 6 FLOP for each token of a language model, and 2 bytes in the message. The number of parameters cancels. Below are three links that others have measured, each with eight H100s.

# %%
rate = expected.rates("H100")["bf16"].value  # FLOP/s
links = {name: published.get(f"allreduce-{key}").value for name, key in {"NVLink": "nvlink", "PCIe 5": "pcie5", "100 Gb/s Ethernet": "ethernet"}.items()}
tokens = [2**k for k in range(8, 19)]  # on each GPU, in each step
efficiency = {
    name: [100 * (compute := 6 * t / rate) / (compute + sent(8) * 2 / link) for t in tokens]
    for name, link in links.items()
}
half_at = {name: sent(8) * 2 / link * rate / 6 for name, link in links.items()}
print(*(f"{name}: {links[name] / 1e9:.0f} GB/s, half of the time is computing at {t:,.0f} tokens" for name, t in half_at.items()), sep="\n")

# %%
# @title Draw what is left for computing { display-mode: "form" }
figures.lines(
    tokens, efficiency, title="The slower the link, the more tokens each GPU needs (a model)", xlabel="tokens on each GPU in a step",
    ylabel="time spent computing, %", doubling=True,
)

# %% [markdown] tags=["minutes-6", "short-5"]
# Eight GPUs with NVLink spend half of their time computing from about a thousand tokens each. Put four into each of two machines, with a 100 Gb/s cable between them, and every GPU needs eighty times as many. The whole ring waits for its slowest link. These curves count no overlap. With it you can do better, but a message that takes longer than the backward pass can't hide behind it.
#
# ## Is it still the same training?
#
# A mean over 64 rows is the mean of two means over 32 rows. So two workers should get the network that one gets with the whole batch. Let's take 50 steps and compare every weight. Then do it with shares of 48 and 16 rows. And then let both workers read the same 32 rows, as they do when you forget the `DistributedSampler`.
#
# **Predict.** Which of the three get the same network as one worker alone?

# %%
same_network = None  # @param ["all three", "equal and uneven shares", "equal shares only"]

# %%
def compare(rank, device):
    x = torch.randn(256, 64, generator=torch.Generator().manual_seed(1)).to(device)
    y = x[:, :10].argmax(1)

    def trained(model, share):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(50):
            rows = (torch.arange(64) + 64 * step)[share] % 256
            F.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
            optimizer.zero_grad()
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    whole = trained(network(64).to(device), slice(0, 64))
    shares = {"equal": [slice(0, 32), slice(32, 64)], "uneven": [slice(0, 48), slice(48, 64)], "the same rows": [slice(0, 32)] * 2}
    return {name: (trained(DistributedDataParallel(network(64).to(device)), share[rank]) - whole).abs().max().item() for name, share in shares.items()}


# %%
gaps = ranks.run(compare)[0]

# %%
# @title Draw the gaps { display-mode: "form" }
figures.bars(gaps, unit="", log=True, title="Largest difference of any weight after 50 steps")

# %% [markdown]
# Equal shares differ in the last digit of float32. The other two are millions of times further away, and nobody gets an error. DDP takes the plain mean of the workers' means, so each of the 16 rows counted three times as much as one of the 48.

# %% [markdown] tags=["minutes-4", "short-0"]
# ## Half of it each
#
# DDP keeps everything twice. `fully_shard` lets each worker keep half of the parameters, the gradients and the optimizer's state. A layer is put together just before it's needed, which costs more messages.

# %%
def shard(rank, device, folder):
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    model = network(64).to(device)
    whole = sum(p.numel() for p in model.parameters())
    for layer in model[::2]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(8, 64, device=device)).square().mean().backward()
    optimizer.step()
    mine = sum(p.to_local().numel() for p in model.parameters())
    dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=folder)
    return mine, whole, model(torch.ones(1, 64, device=device)).sum().item()


def load(rank, device, folder):
    model = network(64)
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=folder)  # into the tensors of the model
    return model(torch.ones(1, 64)).sum().item()


# %%
with tempfile.TemporaryDirectory() as folder:
    sharded = ranks.run(shard, folder=folder)
    loaded = ranks.run(load, n=1, folder=folder)[0]
for rank, (mine, whole, result) in enumerate(sharded):
    print(f"rank {rank} holds {mine:,} of {whole:,} parameters, and the network answers {result:.6f}")
print(f"one process that loads what two have saved: {loaded:.6f}")
reload_gap = abs(loaded - sharded[0][2])

# %% [markdown] tags=["minutes-4", "short-4"]
# Each rank wrote its own half into the folder. One process put it together again, so you can go on with another number of GPUs.
#
# ## When one stops
#
# Two things happen to everybody once. A process dies. Or all live, but one runs out of batches a step earlier, because the data didn't divide evenly. What does the other one notice?
#
# **Predict.** One worker makes five steps, the other six. Both are alive. What happens in the sixth step?

# %%
one_fewer = None  # @param ["it goes on alone", "an error at once", "it waits until a time-out"]

# %%
def killed(rank, device):
    for step in range(10):
        if rank == 1 and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(1000, device=device))


def uneven(rank, device):
    for _ in range(6 - rank):
        dist.all_reduce(torch.ones(1000, device=device))
    time.sleep(2 * WAIT * rank)  # rank 1 lives on, and does something else
    return "fine"


# %%
WAIT = 3  # seconds; the default is half an hour with gloo, and ten minutes with NCCL
for case in killed, uneven:
    print(f"{case.__name__}:")
    for rank, end in enumerate(ranks.run(case, timeout=WAIT, check=False)):
        print(f"   rank {rank}: {end}")

# %% [markdown] tags=["minutes-4", "short-0"]
# A dead neighbor shows at once, because its connection breaks. A living one that doesn't come shows only after the time-out. So pass `timeout=` to `init_process_group`, use `DistributedSampler`, which gives each rank equally many rows, and let `torchrun --max-restarts=3` start everybody again from the last checkpoint.
#
# ## Where one machine ends
#
# Nobody writes their own launcher for a cluster. Your training function stays as it is, and somebody else starts it.
#
# | you have | you start it with |
# |---|---|
# | one machine with 8 GPUs | `torchrun --standalone --nproc-per-node=8 train.py` |
# | two machines | on both: `torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=HOST:29500 train.py` |
# | a Slurm cluster | `srun --nodes=2 --ntasks-per-node=1 torchrun …`, the line above with the first node as `HOST` |
# | Kubernetes, such as GKE | a `TrainJob` of Kubeflow Trainer with `numNodes: 2` |
# | a Ray cluster, or one to be | `TorchTrainer`, below |

# %%
# needs: ray
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model


def loop():
    model = prepare_model(nn.Linear(64, 1))  # wraps it in DistributedDataParallel
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        loss = (model(torch.ones(32, 64)) - 1).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return f"a loss of {loss.item():.6f} with {dist.get_world_size()} workers"


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
trainer = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=RunConfig(storage_path=tempfile.mkdtemp()))
print(trainer.fit().return_value)
ray.shutdown()

# %% [markdown]
# JAX needs no second process. One program sees all devices as a *mesh*, as in lesson 05. `shard_map` shows you what each device does, and where they talk.

# %%
# needs: jax
os.environ["JAX_PLATFORMS"] = "cpu"  # one framework at a time: PyTorch has the accelerator
import jax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def product(x, w):  # one device: half of the rows of x, and half of the terms of each sum
    return jax.lax.psum(x @ w, "model")  # an all-reduce between two of the four


split = jax.shard_map(product, mesh=mesh, in_specs=(P("data", "model"), P("model", None)), out_specs=P("data", None))
x, w = jax.numpy.ones((8, 6)), jax.numpy.ones((6, 4))
print("equal to x @ w:", bool((split(x, w) == x @ w).all()), "with", jax.device_count(), "devices")

# %% [markdown] tags=["minutes-6", "short-5"]
# ## Exercises
#
# ### 1 · Does it pay?
#
# Your model has 1.5 billion parameters, and you train it on 8 GPUs with gradients of 2 bytes. Their link carries 25 GB/s, and each GPU computes 200 TFLOP/s. How many milliseconds does the all-reduce take? And at how many tokens per GPU is computing as long as sending?

# %% tags=["exercise"]
pays = {"milliseconds": ..., "tokens": ...}
### BEGIN SOLUTION
pays = {"milliseconds": 1e3 * sent(8) * 1.5e9 * 2 / 25e9, "tokens": sent(8) * 2 / 25e9 * 200e12 / 6}
### END SOLUTION
exercises.check("11.pays", pays)

# %% [markdown]
# ### 2 · Uneven shares, done right
#
# The last batch has 60 rows, 44 for one worker and 16 for the other. DDP will take the plain mean of their gradients. What must each worker multiply its mean loss by, so that all 60 rows count the same?

# %% tags=["exercise"]
def factor(mine, total, workers):  # this worker's rows, all rows, number of workers
    return ...


### BEGIN SOLUTION
def factor(mine, total, workers):
    return mine * workers / total  # DDP divides by the workers, so multiply by them


### END SOLUTION
exercises.check("11.factor", factor)

# %% [markdown]
# ### 3 · Half a ring
#
# `fully_shard` needs only half of a ring: each worker holds one finished part, and all want all of them. That's an *all-gather*. Write it with `ring_step`. Each worker's own part is the one with its rank as index. The check runs it with three workers.

# %% tags=["exercise"]
def all_gather(parts, rank, n):
    return ...


### BEGIN SOLUTION
def all_gather(parts, rank, n):
    for step in range(n, 2 * n - 1):  # rank - n is this worker's own part, and n - 1 steps only pass on
        ring_step(parts, rank, n, step)


### END SOLUTION
exercises.check("11.gather", all_gather)

# %% [markdown]
# ### 4 · Your own network
#
# Open task: put a network that's really yours into `mine`. How many seconds would two workers here wait for its gradients, with the latency and the bandwidth that you measured?

# %% tags=["exercise"]
mine = network(512)
wait = ...  # seconds
### BEGIN SOLUTION
wait = 2 * latency + sum(p.numel() * p.element_size() for p in mine.parameters()) * per_byte
### END SOLUTION
exercises.check("11.mine", wait, network=mine, latency=latency, per_byte=per_byte)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "Work per message decides": f"two workers were {speedup[0]:.1f}× as fast as one on {BATCHES[0]} rows, and {speedup[-1]:.1f}× on {BATCHES[-1]:,}.",
    "Send one bucket": f"{MESSAGES} small all-reduces took {bucket_gain:.0f} times as long as one.",
    "Nobody warns you": f"equal shares gave the same network, and rows read twice one that's {gaps['the same rows'] / gaps['equal']:,.0f} times further away.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = reference.Value, reference.Prediction, hardware.list_devices()
reference.record(
    "11_many_devices", FAST, device=inventory.main if gpus > 1 else inventory.cpu,
    predicted={
        "wins_from": guess(wins_from, win),
        "times_longer": guess(times_longer, bucket_gain),
        "bytes_with_8": guess(bytes_with_8, grows),
        "same_network": guess(same_network, "equal shares only"),
        "one_fewer": guess(one_fewer, "it waits until a time-out"),
    },
    speedup_small=value(speedup[0], "×", "two workers against one, on 2 rows"),
    speedup_large=value(speedup[-1], "×", f"two workers against one, on {BATCHES[-1]:,} rows"),
    wins=value(win, "", "rows from which two workers win"),
    prediction_off=value(100 * off, "%", "largest miss of the predicted curve"),
    latency=value(latency, "s", "a message of 4 bytes"),
    bandwidth=value(1 / per_byte, "B/s", "bandwidth between two workers"),
    bucket=value(bucket_gain, "×", f"{MESSAGES} small all-reduces against one"),
    ring_gap=value(ring_gap, "", "ring by hand against the library"),
    ring_time=value(by_hand / by_library, "×", "time of the ring by hand against the library's"),
    same_gap=value(gaps["equal"], "", "weights after equal shares"),
    uneven_gap=value(gaps["uneven"], "", "weights after uneven shares"),
    double_gap=value(gaps["the same rows"], "", "weights after the same rows"),
    held=value(100 * sharded[0][0] / sharded[0][1], "%", "parameters on one of two ranks"),
    reload_gap=value(reload_gap, "", "saved by two, loaded by one"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# # train.py, started with: torchrun --standalone --nproc-per-node=2 train.py
# dist.init_process_group(timeout=timedelta(minutes=2))  # NCCL on GPUs, gloo without
# rank = int(os.environ["LOCAL_RANK"])
# device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
# model = DistributedDataParallel(model.to(device))
# sampler = DistributedSampler(data, drop_last=True)  # other rows for each rank, and equally many
# loader = DataLoader(data, batch_size=64, sampler=sampler)
# for epoch in range(epochs):
#     sampler.set_epoch(epoch)  # another order in each epoch
#     for x, y in loader:
#         ...
# if dist.get_rank() == 0:
#     torch.save(model.module.state_dict(), "model.pt")
# dist.destroy_process_group()
# ```
