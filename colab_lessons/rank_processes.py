"""Processes that train together, started from a notebook: they end when it does.

`torchrun` starts a file; a notebook's functions are in no file. So `run` sends a function to fresh
Python processes, gives them the variables that torchrun would give, and returns what each of them
returned. A process that it started ends itself as soon as the notebook's own process is gone: killed,
interrupted or crashed.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import multiprocessing
import os
import pickle
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from colab_helpers import _atomic_files
from colab_lessons import recorded_outputs

#: A folder: what runs return is kept in it, for machines on which processes cannot talk.
RECORD_FOLDER_VARIABLE = "KEEP_RANKS"
_HOST = "127.0.0.1"
_SOURCE_LOCATION = re.compile(r"\[?/\S+:\d+\] ")


@dataclass(frozen=True)
class RankError:
    """How a rank ended that returned nothing: its exit code, negative for a signal, and its error.

    `error` has the seconds that its call had taken.
    """

    code: int
    error: str

    def __str__(self) -> str:
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        said = _SOURCE_LOCATION.sub("", self.error)  # not where in gloo's source it happened
        return said.partition(". ")[0]


def run(
    function: Callable[..., Any],
    n: int = 2,
    *,
    timeout: float = 30,
    patience: float = 300,
    check: bool = True,
    **arguments: Any,
) -> list[Any]:
    """Return what `function(rank, device, **arguments)` returned in each of `n` processes.

    Before the call each process has joined a process group: NCCL if there is a GPU for each rank, gloo
    on the CPU with one thread each if not. `timeout` is the group's, in seconds; after `patience` seconds
    all of them are ended. What is returned must be of the kinds that JSON knows.

    Raises RuntimeError where a rank fails; with `check=False` its place holds a `RankError`.
    """
    if why := why_unavailable():
        return _load_recorded(function.__name__, n, why)
    ended = _call(function, arguments, n, timeout, patience)
    failed = [(rank, end) for rank, end in enumerate(ended) if isinstance(end, RankError)]
    if failed and check:
        raise RuntimeError("\n".join(f"Rank {rank}: {end}" for rank, end in failed))
    if (folder := os.environ.get(RECORD_FOLDER_VARIABLE)) and function.__module__ == "__main__":
        _save_results(Path(folder), function.__name__, ended)
    return ended


def _call(
    function: Callable, arguments: dict, n: int, timeout: float, patience: float
) -> list[Any]:
    """What the function returned in each process, or how it failed there."""
    import cloudpickle  # a notebook's functions are in no module, so they travel by value
    from torch import distributed

    # The processes find each other through a store, which lies in this one: it chooses a port that is
    # free, and closes it when this process ends.
    store = distributed.TCPStore(_HOST, 0, is_master=True, wait_for_workers=False)
    job = cloudpickle.dumps((function, arguments))
    end = time.monotonic() + patience
    ranks: list[tuple[BaseProcess, Connection]] = []
    try:
        for rank in range(n):
            here, there = _context().Pipe(duplex=False)
            process = _context().Process(
                target=_rank_main,
                args=(there, job, _rank_environment(rank, n, store.port), timeout),
                name=f"rank {rank}",
                daemon=True,
            )
            ranks.append((process, here))  # before it starts: an interrupt may come at once
            process.start()
            there.close()
        return [_receive_result(*rank, end) for rank in ranks]
    finally:  # whatever happened: nobody stays behind
        for process, connection in ranks:
            if process.pid:
                process.kill()
                process.join()
            connection.close()


def _rank_environment(rank: int, n: int, port: int) -> dict[str, str]:
    """The variables that torchrun gives to a process."""
    given = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": n,
        "LOCAL_WORLD_SIZE": n,
        "MASTER_ADDR": _HOST,
        "MASTER_PORT": port,
    }
    return {key: str(value) for key, value in given.items()}


@functools.cache
def _context() -> Any:
    """How processes start: from one that has imported PyTorch and done nothing else, if possible.

    A fork of this process would inherit its threads and its GPU, and hang.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            __name__,
            "torch",
            "torch._dynamo",  # optimizers import it when they are made
            "torch.distributed.fsdp",
            "torch.distributed.checkpoint",
        ]
    )
    return context


def _receive_result(process: BaseProcess, connection: Connection, end: float) -> Any:
    """What a rank returned, or how it failed."""
    error = "no message"
    try:
        if connection.poll(max(0.0, end - time.monotonic())):
            returned, error, printed = connection.recv()
            print(printed, end="")
            if not error:
                return json.loads(returned)
        else:
            process.kill()
            process.join()
            return RankError(1, "ended by the time limit, without a result")
    except EOFError:
        pass
    process.join()
    return RankError(process.exitcode or 1, error)


def why_unavailable() -> str:
    """Say why processes on this machine cannot talk to each other; "" where they can."""
    try:
        with socket.create_server((_HOST, 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        return f"processes cannot talk to each other on this machine ({error})"
    from torch import distributed

    return "" if distributed.is_available() else "this PyTorch is built without torch.distributed"


def _path(folder: Path, name: str, n: int) -> Path:
    return folder / f"ranks-{name}-{n}.json"


def _save_results(folder: Path, name: str, ended: Sequence[Any]) -> None:
    from colab_helpers import hardware

    told = [{"failed": asdict(end)} if isinstance(end, RankError) else end for end in ended]
    kept = {
        "device": hardware.list_devices().main.short_name,
        "date": date.today().isoformat(),
        "ranks": told,
    }
    _atomic_files.write(_path(folder, name, len(ended)), json.dumps(kept) + "\n")


def _load_recorded(name: str, n: int, why: str) -> list[Any]:
    path = _path(recorded_outputs.FOLDER, name, n)
    if not path.exists():
        raise RuntimeError(f"{recorded_outputs.NOT_RUN} {why}. Nothing is recorded for {name}.")
    kept = json.loads(path.read_text("utf-8"))
    print(f"{recorded_outputs.NOT_RUN} {why}.\nRecorded on {kept['device']}, {kept['date']}.")
    return [
        RankError(**end["failed"]) if isinstance(end, dict) and "failed" in end else end
        for end in kept["ranks"]
    ]


def _exit_with_parent() -> None:
    notebook = multiprocessing.parent_process()
    assert notebook is not None
    notebook.join()
    os._exit(1)


def _rank_main(connection: Connection, job: bytes, given: dict[str, str], timeout: float) -> None:
    """Join the group, call the function, and send what it returned, its error, and what it printed."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    os.environ.update(given)
    if loopback := {"linux": "lo", "darwin": "lo0"}.get(sys.platform):
        os.environ["GLOO_SOCKET_IFNAME"] = loopback
    # Messages of libraries are not the notebook's: what matters comes as an error.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1), os.dup2(nowhere, 2)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        start = time.perf_counter()
        try:
            returned, error = json.dumps(_run_in_group(pickle.loads(job), given, timeout)), ""
        except BaseException as problem:
            said, seconds = str(problem).partition("\n")[0], time.perf_counter() - start
            returned, error = "", f"{type(problem).__name__} after {seconds:.2f} s: {said}"
    connection.send((returned, error, printed.getvalue()))
    connection.close()
    os._exit(1 if error else 0)  # another rank may wait for this one: tidying up would wait for it


def _run_in_group(job: tuple, given: dict[str, str], timeout: float) -> Any:
    import torch
    from torch import distributed

    function, arguments = job
    rank, n = int(given["RANK"]), int(given["WORLD_SIZE"])
    on_gpus = distributed.is_nccl_available() and torch.cuda.device_count() >= n
    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    store = distributed.TCPStore(given["MASTER_ADDR"], int(given["MASTER_PORT"]), is_master=False)
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpus else "gloo",
        store=store,
        rank=rank,
        world_size=n,
        timeout=timedelta(seconds=timeout),
    )
    if not on_gpus:  # or a rank that ends at once would cut off one that is still connecting
        distributed.barrier()
    returned = function(rank, device, **arguments)
    distributed.destroy_process_group()
    return returned
