"""CUDA kernels in numba's simulator, with arrays that note which thread reads and writes what.

The simulator runs each thread of a kernel in Python, so it needs no GPU and its times mean nothing. What
it shows is exact: the cells that a thread touches, and in what order. No cache is modelled.

Source of the 32-byte sectors and of the warp of 32 threads: NVIDIA, "CUDA C++ Best Practices Guide",
coalesced access to global memory.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SECTOR_BYTES = 32  # bytes: memory is read in pieces of this size
WARP_SIZE = 32  # threads that run the same instruction together
_SIMULATOR = "NUMBA_ENABLE_CUDASIM"
_PREAMBLE = "import json\nimport numpy as np\nfrom numba import cuda, float32\n"


class BarrierError(RuntimeError):
    """Threads of one kernel reach different numbers of barriers."""


class Access(NamedTuple):
    """One read or write of one thread; its `turn` among the thread's accesses to this array, from 0."""

    block: tuple[int, int]
    thread: tuple[int, int]
    warp: int
    turn: int
    cell: tuple[int, ...]


@dataclass(frozen=True)
class WatchedArray:
    """An array for a kernel, which notes who reads and writes it.

    `array` is what it holds. What lies outside can't be read or written: it is noted in `outside`. A GPU
    wouldn't notice, and something else might be read or overwritten.

    >>> watched = WatchedArray(np.zeros(4, dtype=np.float32))
    >>> watched.shape, watched.sectors
    ((4,), 0)
    """

    array: np.ndarray
    reads: list[Access] = field(default_factory=list)
    writes: list[Access] = field(default_factory=list)
    outside: list[Access] = field(default_factory=list)  # of reads and writes both
    written_outside: list[Access] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, as a kernel asks for it."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self.array.ndim

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.array.size

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, cell: Any) -> Any:
        where = self._record(self.reads, cell)
        return self.array[where] if where is not None else self.array.dtype.type(0)

    def __setitem__(self, cell: Any, number: Any) -> None:
        where = self._record(self.writes, cell)
        if where is not None:
            self.array[where] = number

    @property
    def sectors(self) -> int:
        """How many pieces of 32 bytes all warps asked for."""
        return self.sectors_of(self.reads)

    def sectors_of(self, accesses: Sequence[Access]) -> int:
        """Return how many pieces of 32 bytes these `accesses` need, if a warp's are carried out together."""
        groups = group_by_warp(accesses)
        return sum(len({self.sector(access.cell) for access in group}) for group in groups)

    def sector(self, cell: tuple[int, ...]) -> int:
        """Return the number of the sector that holds `cell`."""
        return int(np.ravel_multi_index(cell, self.shape)) * self.array.itemsize // SECTOR_BYTES

    def _record(self, log: list[Access], cell: Any) -> tuple[int, ...] | None:
        """Where it is, or None if it lies outside."""
        where = tuple(int(k) for k in (cell if isinstance(cell, tuple) else (cell,)))
        if len(where) != self.array.ndim:
            raise IndexError(f"{len(where)} indices for an array with {self.array.ndim} dimensions")
        me: Any = threading.current_thread()  # the simulator has one for each of a kernel's
        thread, block, turns = me.threadIdx, me.blockIdx, me.__dict__.setdefault("turns", Counter())
        warp = (thread.x + thread.y * me._manager._block_dim[0]) // WARP_SIZE
        access = Access((block.x, block.y), (thread.x, thread.y), warp, turns[id(log)], where)
        turns[id(log)] += 1
        if any(not 0 <= k < n for k, n in zip(where, self.shape, strict=True)):
            self.outside.append(access)
            if log is self.writes:
                self.written_outside.append(access)
            return None
        log.append(access)
        return where


def group_by_warp(accesses: Sequence[Access]) -> list[list[Access]]:
    """Group `accesses` by block, warp and instruction, as if the threads of a warp ran in lockstep."""
    groups: dict[tuple, list[Access]] = {}
    for access in accesses:
        groups.setdefault((access.block, access.warp, access.turn), []).append(access)
    return list(groups.values())


def watch(*arrays: np.ndarray) -> tuple[WatchedArray, ...]:
    """Return the arrays as a kernel's arguments that note who reads and writes them.

    `arrays` are changed in place.
    """
    return tuple(map(WatchedArray, arrays))


def launch(
    kernel: Callable, blocks: Any, threads: Any, *arrays: np.ndarray
) -> tuple[WatchedArray, ...]:
    """Run `kernel` in the simulator, and return its arrays, watched.

    `blocks` and `threads` (in each block) are numbers or pairs, as CUDA wants them; `arrays` are changed
    in place. Raises `RuntimeError` if the simulator isn't on (the variable is read when numba is
    imported), `TypeError` for what is no function, and `BarrierError` if not all threads reach all
    barriers.
    """
    from numba import config, cuda

    if not getattr(config, "ENABLE_CUDASIM", 0):
        raise RuntimeError(
            "numba's simulator is off. Set NUMBA_ENABLE_CUDASIM=1 before numba is imported: restart "
            "the session, and run the cells from the top."
        )
    kernel = getattr(kernel, "fn", kernel)  # with cuda.jit before it, or without
    if not inspect.isfunction(kernel):
        raise TypeError("A kernel is a function, written with def.")
    watched = watch(*arrays)
    errors: list[threading.ExceptHookArgs] = []
    before, threading.excepthook = threading.excepthook, errors.append
    try:
        with _count_barriers() as barriers:
            cuda.jit(kernel)[blocks, threads](*watched)
    finally:
        threading.excepthook = before
    if errors:  # an error that the simulator couldn't pass on
        raise RuntimeError(f"A thread stopped with {errors[0].exc_type.__name__}.")
    by_block: dict[tuple[int, ...], list[int]] = {}
    for (block, _), count in barriers.items():
        by_block.setdefault(block, []).append(count)
    for passed in by_block.values():
        counts = {*passed, *([0] if len(passed) < np.prod(threads) else [])}
        if len(counts) > 1:
            raise BarrierError(
                f"Some threads reach {max(counts)} barriers, others {min(counts)}. All threads of a block "
                "have to reach each one: on a GPU the rest would wait for them, or go on too early."
            )
    return watched


@contextlib.contextmanager
def _count_barriers() -> Iterator[Counter]:
    """Count the barriers that each thread passes, by its block and its place in it."""
    from numba.cuda.simulator import kernel as simulator

    barriers: Counter = Counter()
    threads: Any = simulator.BlockThread
    plain = threads.syncthreads

    def counted(thread: Any) -> None:
        barriers[(*thread.blockIdx,), (*thread.threadIdx,)] += 1
        plain(thread)

    threads.syncthreads = counted
    try:
        yield barriers
    finally:
        threads.syncthreads = plain


def find_triton(interpret: bool) -> None:
    """Let this process import Triton from where `make setup` has put it.

    That's a folder of its own, because PyTorch imports Triton wherever it finds it, which takes a second
    and changes what it compiles. On Colab's GPUs Triton is there anyway. `interpret` says whether kernels
    run in its interpreter, as they must without a GPU.
    """
    folder = Path(sys.prefix) / "triton"
    if folder.is_dir() and str(folder) not in sys.path:
        sys.path.append(str(folder))
    os.environ["TRITON_INTERPRET"] = str(int(interpret))
    os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"  # a multiplication and an addition become one fma


def traffic(watched: Sequence[WatchedArray]) -> int:
    """Return the bytes that the reads of `watched` arrays asked for, in whole sectors."""
    return SECTOR_BYTES * sum(one.sectors for one in watched)


def time_on_gpu(
    kernels: Sequence[Callable], size: int, tile: int, timeout: float = 120
) -> dict[str, float]:
    """Return the seconds of each product of two matrices, on the GPU of this machine.

    `kernels` take three (size, size) float32 arrays and run in blocks of `tile` × `tile` threads. They are
    written into a script without the simulator, because one process can't have both; `TILE` is defined
    there. Raises `RuntimeError` with the script's last words if it fails or takes longer than `timeout`
    seconds.
    """
    parts = [_PREAMBLE, f"TILE = {tile}\n"]
    functions = [getattr(kernel, "fn", kernel) for kernel in kernels]
    parts += [inspect.getsource(one).removeprefix("@cuda.jit\n") for one in functions]
    names = ", ".join(one.__name__ for one in functions)
    parts.append(f"kernels, size, tile = [{names}], {size}, {tile}\n{inspect.getsource(_time_all)}")
    parts.append("print(json.dumps(_time_all(cuda, kernels, size, tile)))\n")
    plain = {name: value for name, value in os.environ.items() if name != _SIMULATOR}
    command = [sys.executable, "-W", "ignore", "-c", "\n".join(parts)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=plain)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"The kernels took longer than {timeout:g} seconds.") from error
    if done.returncode:
        raise RuntimeError("\n".join(done.stderr.strip().splitlines()[-3:]))
    return json.loads(done.stdout.splitlines()[-1])


def _time_all(cuda, kernels, size, tile):
    # It runs in the script, too: no types, and no names from here but NumPy's.
    import time

    a, b = (
        cuda.to_device(np.random.default_rng(k).random((size, size), dtype=np.float32))
        for k in (0, 1)
    )
    c = cuda.device_array((size, size), dtype=np.float32)
    blocks, seconds = (-(-size // tile), -(-size // tile)), {}
    for kernel in kernels:
        compiled = cuda.jit(kernel)
        compiled[blocks, (tile, tile)](a, b, c)  # the first call compiles
        cuda.synchronize()
        times = []
        for _ in range(3):
            start = time.perf_counter()
            compiled[blocks, (tile, tile)](a, b, c)
            cuda.synchronize()
            times.append(time.perf_counter() - start)
        seconds[kernel.__name__] = min(times)
    return seconds
