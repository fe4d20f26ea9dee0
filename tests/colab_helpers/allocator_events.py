"""A training step's peak by the CPU allocator's own events, which see what kernels take inside."""

from itertools import accumulate

from torch.profiler import ProfilerActivity, profile

from colab_helpers import memory


def peak_bytes(model, loss_of, rows, optimizer):
    """Run two real steps; return the bytes at the peak of the second, with what stands before it."""
    for counted in (False, True):
        optimizer.zero_grad()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=counted) as seen:
            loss_of(rows).backward()
            optimizer.step()
    optimizer.zero_grad()
    standing = memory.tensor_bytes([model, optimizer])
    events = sorted(seen.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    return standing + max(accumulate((event.nbytes() for event in events), initial=0))
