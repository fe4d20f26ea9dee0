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
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from colab_helpers import benchmark, chip_throughput, hardware, published_results

from colab_lessons import crossover, exercises, figures, measurements, rank_processes, recorded_outputs
from colab_lessons.predictions import your_prediction  # adds what you predicted to a title

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
FAST = FAST and not rank_processes.why_unavailable()  # recorded results have the full size
BATCHES = BATCHES or [2**k for k in range(1, 8 if FAST else 12)]  # batch sizes, each twice the one before
WIDTH = WIDTH or (256 if FAST else 1024)  # of the network that two workers train
BYTES = BYTES or [4**k for k in range(1, 11 if FAST else 14)]  # of a message
MESSAGES = MESSAGES or (300 if FAST else 500)  # small tensors whose gradients are sent
REPEATS = REPEATS or (3 if FAST else 8)  # of each timed piece of work

# %%
recorded_outputs.watch("11_many_devices")  # where processes can't talk to each other, recorded results appear
gpus = torch.cuda.device_count() if torch.cuda.is_available() and dist.is_nccl_available() else 0
where = f"{gpus} GPUs" if gpus > 1 else "processes on the CPU, one thread each"
print(f"The workers of this lesson: {where}")

# %% [markdown] tags=["minutes-7"]
# ## Two workers, one training
#
# Colab lends you one GPU, so most people meet this on Kaggle's two T4s or on a rented machine. Nothing in it needs a GPU, however. Two Python
# processes with one CPU core each have the same work to share, and communicate through the same PyTorch calls. One process could use both cores by
# itself, of course. We don't let it, since a GPU can't borrow another one's cores either.
#
# This is the training step that they share. Each worker has a copy of the network and takes half of the batch. `DistributedDataParallel` averages
# their gradients before the optimizer steps, so both copies stay equal.

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
def train(rank, device, talk=True):
    n, model, seconds = dist.get_world_size(), network(WIDTH).to(device), []
    if n > 1 and talk:
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
# `torchrun` starts a file several times and gives each process a number, the *rank*. `rank_processes.run` does the same with a function of this notebook.
# Each process first calls `dist.init_process_group`, so that all can communicate, and then `train`. When the notebook ends, so do they.
#
# **Predict.** Two workers share each batch. From what batch size on are they faster than one alone?

# %%
wins_from = None  # @param {type:"integer"}

# %%
alone = rank_processes.run(train, n=1)[0]
together = rank_processes.run(train, n=2)[0]
speedup = [one / two for one, two in zip(alone, together)]
win = next((batch for batch, gain in zip(BATCHES, speedup) if gain > 1), BATCHES[-1])
found = f"Two workers beat one from a batch of {win}" if max(speedup) > 1 else "Two workers never beat one here"

# %%
# @title Draw the speed-up { display-mode: "form" }
figures.lines(
    BATCHES, {"two workers, measured": speedup}, ideal={"twice as fast": [2] * len(BATCHES), "as fast as one": [1] * len(BATCHES)},
    title=f"{found}{your_prediction(wins_from)}", xlabel="rows in the batch", ylabel="times as fast as one", doubling=True,
)

# %% [markdown]
# On the left two workers take *longer* than one, and the larger the batch, the closer they come to twice as fast. It's the same network and the
# same code, so something else takes the time.

# %% [markdown] tags=["minutes-7"]
# ## What a message costs
#
# They communicate. To see what that costs, send messages back and forth, from four bytes to many megabytes.

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
took = rank_processes.run(talk)[0]
latency, per_byte = took[0], (took[-1] - took[-2]) / (BYTES[-1] - BYTES[-2])
print(f"{1e6 * latency:.0f} µs for the smallest message, and {1e-9 / per_byte:.1f} GB/s for large ones")

# %%
# @title Draw time over size { display-mode: "form" }
figures.lines(
    BYTES, {"one message, measured": took}, ideal={"latency + bytes / bandwidth": [latency + size * per_byte for size in BYTES]},
    title="Below some size all messages take the same time", xlabel="size of the message", ylabel="seconds", log=True, units=("B", "s"),
)

# %% [markdown]
# The left is flat: a message of four bytes takes as long as one of a few thousand. That's the *latency*. On the right the time grows in proportion
# to the bytes. Bytes divided by time is the *bandwidth* there. Two numbers describe a link.
#
# A network has many tensors, and each has a gradient. An *all-reduce* adds up what all workers have, and gives each of them the sum. You can call
# it for every tensor, or copy them all into one *bucket* first and call it once.
#
# **Predict.** How many times as long do 500 small all-reduces take as a single one with the same bytes?

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
one_by_one, in_a_bucket = rank_processes.run(reduce)[0]
bucket_gain = one_by_one / in_a_bucket
each = one_by_one / MESSAGES
print(f"{MESSAGES} calls {1e3 * one_by_one:.0f} ms, that's {1e6 * each:.0f} µs each. One bucket: {1e3 * in_a_bucket:.2f} ms. The calls took {bucket_gain:.0f} times as long{your_prediction(times_longer, '×')}")

# %% [markdown]
# Each call has a fixed cost, however few bytes it sends, and it's several times that of a single message. That's why `DistributedDataParallel`
# collects gradients into buckets of 25 MB, after a first one of 1 MB. It sends a bucket while the backward pass still computes the rest.

# %% [markdown] tags=["minutes-9"]
# ## A ring
#
# If many workers sent their whole gradients to one, its link would be the bottleneck. So they form a ring, and each cuts its gradient into n parts.
# In every step each worker sends one part to its right neighbor, and receives one from the left.

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
# The next cells compare it with the library's on the gradients of our network, and watch four workers that start with a 1 in each part.

# %%
def ring(rank, device):
    n = dist.get_world_size()
    x = torch.randn(3 * WIDTH * (WIDTH + 1), generator=torch.Generator().manual_seed(rank)).to(device)
    y = x.clone()
    ring_all_reduce(x, rank, n)
    dist.all_reduce(y)
    gap = (x - y).abs().max().item()
    return gap, fastest(lambda: ring_all_reduce(x, rank, n)), fastest(lambda: dist.all_reduce(y))


# %%
def watch(rank, device):
    n = dist.get_world_size()
    parts = list(torch.ones(n, device=device).chunk(n))
    seen = [[int(part) for part in parts]]
    for step in range(2 * (n - 1)):
        ring_step(parts, rank, n, step)
        seen.append([int(part) for part in parts])
    return seen


# %%
_, by_hand, by_library = rank_processes.run(ring)[0]
ring_gap = rank_processes.run(ring, n=4)[0][0]
gradient = 3 * WIDTH * (WIDTH + 1) * 4  # bytes
print(f"{gradient / 1e6:.1f} MB: by hand {1e3 * by_hand:.1f} ms, the library {1e3 * by_library:.1f} ms, and sending alone, one way, takes {1e3 * (2 * latency + gradient * per_byte):.1f} ms")
print(f"with four workers, the largest difference between the two sums is {ring_gap:.1g}")
seen = rank_processes.run(watch, n=4)

# %%
# @title Draw the ring { display-mode: "form" }
figures.ring(np.array(seen), title="Three steps to add, three to pass the sums on")

# %% [markdown]
# What's left over sending is adding, copying, and two processes that share one memory; nothing in this cell tells these apart. We'll use the
# library's time below.
#
# In the picture each row is a worker, and each column a part of the gradient. The number says how many workers' gradients are in it. After three
# steps every part is complete somewhere, and three more steps bring it everywhere.
#
# **Predict.** With 8 workers instead of 2, how many times as much does each of them send?

# %%
bytes_with_8 = None  # @param {type:"number"}

# %%
def sent(n):  # 2 (n - 1) steps, and in each a part of 1 / n
    return 2 * (n - 1) / n


grows = sent(8) / sent(2)
print(*(f"{n:>5} workers: each sends {sent(n):.2f} times the gradient" for n in (2, 4, 8, 1024)), sep="\n")
print(f"8 instead of 2: {grows:.2f} times as much{your_prediction(bytes_with_8, '×')}")

# %% [markdown]
# A ring of a thousand sends hardly more than one of eight. Only the number of steps grows, and each step has its latency.

# %% [markdown] tags=["minutes-5"]
# ## So why isn't it twice as fast?
#
# Two things can slow the pair down: half of a small batch may take as long as all of it, and then the gradients must be sent. Measure the first
# alone, with two workers that never communicate, and add the all-reduce that you've just measured.

# %%
def train_silently(rank, device):
    return train(rank, device, talk=False)


# %%
silent = rank_processes.run(train_silently, n=2)[0]
predicted = [half + by_library for half in silent]
misses = sorted(abs(p / t - 1) for p, t in zip(predicted, together))
crossings = {"predicted": crossover.crossover(BATCHES, alone, predicted), "measured": crossover.crossover(BATCHES, alone, together)}
print(f"half of all predictions miss by less than {misses[len(misses) // 2]:.0%}, the worst by {misses[-1]:.0%}")
for how, rows in crossings.items():
    print(f"{how}: two workers win from", "no batch that we tried" if rows is None else f"about {rows:.0f} rows, between the batches that we tried")

# %%
# @title Draw the time of a step { display-mode: "form" }
figures.lines(
    BATCHES, {"one worker": alone, "two, measured": together, "two that don't communicate": silent}, ideal={"predicted: that and one all-reduce": predicted},
    title="Half of the work, and an all-reduce on top", xlabel="rows in the batch", ylabel="seconds per step", log=True, units=("", "s"),
)

# %% [markdown]
# The dashed line knows nothing of the orange one. It adds one number to the green curve. On the left that number is nearly half of the step, and on
# the right you hardly see it. It leaves three things out. DDP copies gradients into its buckets, and the two processes compete for this machine's
# memory; both make the prediction too low. Messages that start while the backward pass still computes make it too high. The cell above says how far
# off it was.
#
# A gradient is as large for 2 rows as for 2,000, so the message stays the same, and only the work per message grows with the batch. Two workers pay
# off when there's enough to compute between two messages.
#
# On real links, how much is enough can be reckoned. Each parameter of a language model costs 6 FLOP per token, and 2 bytes in the message if
# gradients have 16 bits, so the number of parameters cancels. Others have measured all-reduces over three links, with different cards. We apply
# those speeds to eight H100s. The NVLink figure is above what a link carries, because the switches add on the way.

# %%
rate = chip_throughput.rates("H100")["bf16"].value  # FLOP/s
links = {"NVLink": "allreduce-nvlink", "PCIe 5": "allreduce-pcie5", "100 Gb/s Ethernet, TCP": "allreduce-ethernet"}
tokens = [2**k for k in range(8, 19)]  # per GPU and step
efficiency, half_at = {}, {}
for name, row in links.items():
    link = published_results.get(row)
    send = sent(8) * 2 / link.value  # seconds per parameter
    compute = [6 * t / rate for t in tokens]
    efficiency[name] = [100 * c / (c + send) for c in compute]
    half_at[name] = send * rate / 6
    print(f"{name}: {link.value / 1e9:.0f} GB/s, sending takes as long as computing at {half_at[name]:,.0f} tokens [{link.credit}]")
print(f"with {rate / 1e12:.0f} TFLOP/s per GPU, its best matmul. At half that speed, half as many tokens are enough.")

# %%
# @title Draw what is left for computing { display-mode: "form" }
figures.lines(
    tokens, efficiency, title="The slower the link, the more tokens each GPU needs (a model)", xlabel="tokens per GPU and step",
    ylabel="time spent computing, %", doubling=True,
)

# %% [markdown]
# With NVLink, GPUs compute at least half of the time once each has about 1,000 tokens per step. Put four into each of two machines, with TCP over a
# 100 Gb/s cable between them, and every GPU needs about eighty times as many. The whole group waits for its slowest link. These curves count no
# overlap. With it you can do better, but a message that takes longer than the backward pass can't hide behind it.

# %% [markdown] tags=["minutes-5"]
# ## Is it still the same training?
#
# A mean over 64 rows is the mean of two means over 32 rows. Two workers should therefore get the network that one gets with the whole batch. Take
# 50 steps and compare every weight, then do it with shares of 48 and 16 rows, and then let both workers read the same 32 rows of every batch, so
# that half of the data is never seen.
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
gaps = rank_processes.run(compare)[0]

# %%
# @title Draw the gaps { display-mode: "form" }
figures.bars(gaps, unit="", log=True, title=f"Largest difference of any weight after 50 steps{your_prediction(same_network)}")

# %% [markdown]
# Equal shares differ in the last digit of float32. The other two are millions of times further away, and no error is raised. DDP takes the plain
# mean of the workers' means, so each of the 16 rows counted three times as much as one of the 48. Layers that look at a whole batch, such as
# BatchNorm, differ even with equal shares.

# %% [markdown] tags=["minutes-5", "short-0"]
# ## Sharding with FSDP
#
# DDP keeps everything twice. FSDP, *fully sharded data parallel*, lets each worker keep half of the parameters, the gradients and the optimizer's
# state; PyTorch's function for it is `fully_shard`. A layer is put together just before it's needed, which costs more messages.

# %%
def one_step(model, optimizer, device):
    model(torch.ones(8, 64, device=device)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def answer(model, device):
    return model(torch.ones(1, 64, device=device)).sum().item()


# %%
def shard(rank, device, folder):
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    model = network(64).to(device)
    whole = sum(p.numel() for p in model.parameters())
    for part in *model[::2], model:  # each linear layer, then all
        fully_shard(part, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    one_step(model, optimizer, device)
    mine = sum(p.to_local().numel() for p in model.parameters())
    adam = sum(t.to_local().numel() for state in optimizer.state.values() for t in state.values() if t.dim())
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder)
    one_step(model, optimizer, device)
    return mine, whole, adam, answer(model, device)


# %%
def go_on(rank, device, folder):  # one process, without fully_shard
    model = network(64).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=folder)  # into these tensors
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    one_step(model, optimizer, device)
    return answer(model, device)


# %%
with tempfile.TemporaryDirectory() as folder:
    sharded = rank_processes.run(shard, folder=folder)
    alone_again = rank_processes.run(go_on, n=1, folder=folder)[0]
for rank, (held, whole, adam, result) in enumerate(sharded):
    print(f"rank {rank} holds {held:,} of {whole:,} parameters and {adam:,} of {2 * whole:,} of Adam's moments; after one more step the network answers {result:.6f}")
print(f"one process that loads what both have saved, and takes the step: {alone_again:.6f}")
reload_gap = abs(alone_again - sharded[0][3])

# %% [markdown]
# Each rank wrote its own half into the folder. One process put both together, Adam's state too, and took the next step with the same result, so you
# can move to a different number of GPUs.

# %% [markdown] tags=["minutes-5"]
# ## When a worker stops
#
# Sooner or later a process dies. Or all live, but one runs out of batches a step early, because the data didn't divide evenly.
#
# **Predict.** One worker makes five steps, the other six. Both are alive. What happens in the sixth step?

# %%
one_fewer = None  # @param ["it goes on alone", "an error at once", "it waits until a time-out"]

# %%
WAIT = 3  # seconds; the default is half an hour, or ten minutes if you name NCCL


def add_up(device):
    dist.all_reduce(torch.ones(1000, device=device))
    benchmark.synchronize()


def killed(rank, device):
    for step in range(10):
        if rank == 1 and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        add_up(device)


def uneven(rank, device):
    for _ in range(6 - rank):
        add_up(device)
    time.sleep(2 * WAIT * rank)  # rank 1 lives on, and does something else
    return "fine"


# %%
for case in killed, uneven:
    print(f"{case.__name__}:{your_prediction(one_fewer) if case is uneven else ''}")
    for rank, end in enumerate(rank_processes.run(case, timeout=WAIT, check=False)):
        print(f"   rank {rank}: {end}")

# %% [markdown]
# Over TCP a dead neighbor shows at once, because its connection breaks. With NCCL a dead worker can look like a slow one: the others wait until the
# time-out, and are then killed. Pass `timeout=` to `init_process_group`, and use `DistributedSampler`. It gives each rank equally many rows, and
# repeats a few for that. `torchrun --max-restarts=3` starts all of them again when one dies. Loading the last checkpoint is up to your script.

# %% [markdown] tags=["minutes-5", "short-0"]
# ## Where one machine ends
#
# You don't write your own launcher for a cluster. Your training function stays as it is, and one of these starts it.
#
# | you have | you start it with |
# |---|---|
# | one machine with 8 GPUs | `torchrun --standalone --nproc-per-node=8 train.py` |
# | two machines | on both: `torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=HOST:29500 train.py` |
# | a Slurm cluster | in the job: `srun --ntasks-per-node=1 torchrun …`, the line above with the job's first node as `HOST` |
# | Kubernetes, such as GKE | a `TrainJob` of Kubeflow Trainer with `numNodes: 2` |
# | Ray, on one machine or a cluster | `TorchTrainer`, below |

# %%
# needs: ray
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model


def loop():
    model = prepare_model(nn.Linear(64, 1))  # wraps it in DistributedDataParallel
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(200):
        x = torch.randn(32, 64)  # different rows in each worker
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return f"a loss of {loss.item():.6f} with {dist.get_world_size()} workers"


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
trainer = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=RunConfig(storage_path=tempfile.mkdtemp()))
print(trainer.fit().return_value)
ray.shutdown()

# %% [markdown]
# On one machine JAX needs no second process. One program sees all devices as a *mesh*, as in lesson 05. `shard_map` shows you what each device
# does, and where they communicate.

# %%
# needs: jax
os.environ["JAX_PLATFORMS"] = "cpu"  # one framework at a time: PyTorch has the accelerator
import jax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def matmul(x, w):  # one device: half of the rows of x, and half of the terms of each sum
    return jax.lax.psum(x @ w, "model")  # an all-reduce between two of the four


split = jax.shard_map(matmul, mesh=mesh, in_specs=(P("data", "model"), P("model", None)), out_specs=P("data", None))
x, w = jax.random.normal(jax.random.key(0), (8, 6)), jax.random.normal(jax.random.key(1), (6, 4))
print(f"largest difference to x @ w: {abs(split(x, w) - x @ w).max():.0e}, with {jax.device_count()} devices")

# %% [markdown] tags=["minutes-6"]
# ## Exercises
#
# ### 1 · Does it pay?
#
# Your model has 1.5 billion parameters, and you train it on 8 GPUs with gradients of 2 bytes. Their link carries 25 GB/s, and each GPU computes 200
# TFLOP/s. How many milliseconds does the all-reduce take? And at how many tokens per GPU does computing take as long as sending?

# %% tags=["exercise"]
pays = {"milliseconds": ..., "tokens": ...}
### BEGIN SOLUTION
pays = {"milliseconds": 1e3 * sent(8) * 1.5e9 * 2 / 25e9, "tokens": sent(8) * 2 / 25e9 * 200e12 / 6}
### END SOLUTION
exercises.check("11.pays", pays)

# %% [markdown]
# ### 2 · Uneven shares, done right
#
# The last batch has 60 rows, 44 for one worker and 16 for the other. DDP will take the plain mean of their gradients. What must each worker
# multiply its mean loss by, so that all 60 rows count the same?

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
# To put a layer together, `fully_shard` needs only half of a ring: each worker holds one finished part, and all want all of them. That's an
# *all-gather*. Write it with `ring_step`. Each worker's own part is the one with its rank as index. The check runs it with three workers.

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
# Open task: put a network that's really yours into `mine`. How many seconds would two workers here wait for its gradients? You've measured
# `by_library` for a gradient of `gradient` bytes.

# %% tags=["exercise"]
mine = network(512)
wait = ...  # seconds
### BEGIN SOLUTION
wait = by_library / gradient * sum(p.numel() * p.element_size() for p in mine.parameters())
### END SOLUTION
exercises.check("11.mine", wait, network=mine, per_byte=by_library / gradient)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "Work per message decides": f"two workers were {speedup[0]:.1f}× as fast as one on {BATCHES[0]} rows, and {speedup[-1]:.1f}× on {BATCHES[-1]:,}.",
    "Send one bucket": f"{MESSAGES} small all-reduces took {bucket_gain:.0f} times as long as one.",
    "No error warns you": f"both workers reading the same half of the rows moved a weight by {gaps['the same rows']:.2g}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
value, guess, inventory = measurements.Value, measurements.Prediction, hardware.list_devices()
measurements.record(
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
    wins=value(crossings["measured"] or BATCHES[-1], "", "rows from which two workers win, between the batches tried"),
    prediction_off=value(100 * misses[len(misses) // 2], "%", "median miss of the predicted step"),
    predicted_wins=value(crossings["predicted"] or BATCHES[-1], "", "rows from which two workers win, predicted"),
    latency=value(latency, "s", "a message of 4 bytes"),
    link=value(1 / per_byte, "B/s", "bandwidth between two workers"),
    bucket=value(bucket_gain, "×", f"{MESSAGES} small all-reduces against one"),
    ring_gap=value(ring_gap, "", "ring by hand against the library"),
    ring_time=value(by_hand / by_library, "×", "time of the ring by hand against the library's"),
    same_gap=value(gaps["equal"], "", "weights after equal shares"),
    uneven_gap=value(gaps["uneven"], "", "weights after uneven shares"),
    double_gap=value(gaps["the same rows"], "", "weights after the same rows"),
    held=value(100 * sharded[0][0] / sharded[0][1], "%", "parameters on one of two ranks"),
    adam_held=value(100 * sharded[0][2] / sharded[0][1] / 2, "%", "Adam's state on one of two ranks"),
    reload_gap=value(reload_gap, "", "saved by two, continued by one"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```python
# # train.py, started with: torchrun --standalone --nproc-per-node=2 train.py
# import os
# from datetime import timedelta
#
# import torch
# import torch.distributed as dist
# from torch.nn.parallel import DistributedDataParallel
# from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
#
# local = int(os.environ["LOCAL_RANK"])
# if torch.cuda.is_available():
#     torch.cuda.set_device(local)
# device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
# dist.init_process_group(timeout=timedelta(minutes=2))  # NCCL on GPUs, gloo without
# data = TensorDataset(torch.randn(1000, 8), torch.randn(1000, 1))  # yours
# model = DistributedDataParallel(torch.nn.Linear(8, 1).to(device))  # yours
# optimizer = torch.optim.AdamW(model.parameters())
# start = 0
# if os.path.exists("last.pt"):  # after a restart
#     state = torch.load("last.pt", map_location=device)
#     model.module.load_state_dict(state["model"]), optimizer.load_state_dict(state["optimizer"])
#     start = state["epoch"]
# sampler = DistributedSampler(data)  # different rows for each rank, equally many
# loader = DataLoader(data, batch_size=64 // dist.get_world_size(), sampler=sampler)
# for epoch in range(start, 10):
#     sampler.set_epoch(epoch)  # a different order in each epoch
#     for x, y in loader:
#         torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
#         optimizer.step(), optimizer.zero_grad()
#     if dist.get_rank() == 0:
#         torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}, "new.pt")
#         os.replace("new.pt", "last.pt")
# dist.destroy_process_group()
# ```
#
# You can train on any number of devices now, and say beforehand whether it pays.
