import gc
import sys
import weakref
from types import SimpleNamespace

import pytest
import torch

from colab_helpers import memory


@pytest.mark.parametrize(("budget", "rows"), [(100_000, 100), (999, 0), (1000, 1), (10**9, 500)])
def test_largest_batch_is_the_largest(budget, rows):
    assert memory.largest_batch(lambda n: torch.zeros(n, 250), budget, limit=500) == rows


def test_largest_batch_raises_what_is_no_lack_of_memory():
    with pytest.raises(ZeroDivisionError):
        memory.largest_batch(lambda n: 1 / 0, 1000)


def test_release_drops_the_error_that_python_remembers():
    class Thing:
        pass

    thing = Thing()
    dies = weakref.ref(thing)
    sys.last_value = thing
    cycle = [Thing()]
    cycle.append(cycle)
    in_cycle = weakref.ref(cycle[0])
    del thing, cycle
    gc.disable()
    try:
        assert dies() is not None and in_cycle() is not None
        memory.release()
    finally:
        gc.enable()
    assert dies() is None and in_cycle() is None


@pytest.mark.parametrize("name", ["InteractiveTB", "SyntaxTB"])
def test_release_drops_the_traceback_that_ipython_remembers(monkeypatch, name):
    class Thing:
        pass

    thing = Thing()
    dies = weakref.ref(thing)
    shell = SimpleNamespace(**{name: SimpleNamespace(tb=thing)})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    del thing
    memory.release()
    assert dies() is None


def test_release_frees_what_a_shown_error_holds_in_a_real_shell():
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.run_cell("""
import torch, weakref
from colab_helpers import memory
def fails():
    global dies
    kept = torch.zeros(1000)
    dies = weakref.ref(kept)
    raise ValueError("shown")
""")
    assert not shell.run_cell("fails()").success
    assert shell.user_ns["dies"]() is not None
    sys.modules["IPython"].get_ipython, before = lambda: shell, sys.modules["IPython"].get_ipython
    try:
        assert shell.run_cell("memory.release()").success
    finally:
        sys.modules["IPython"].get_ipython = before
    assert shell.user_ns["dies"]() is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("Invalid buffer size: 19.45 GB"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 8.9 GB)"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate "
                "memory: you tried to allocate 4000000000000 bytes."
            ),
            True,
        ),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_out_of_memory_is_known_in_all_its_words(error, expected):
    assert memory.is_out_of_memory(error) is expected
    if isinstance(error, RuntimeError | MemoryError) and expected:

        def step(rows):
            if rows > 12:
                raise error

        assert memory.largest_batch(step, 10**9, limit=100) == 12


def test_this_pytorchs_own_words_for_a_full_cpu_are_known():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert memory.is_out_of_memory(caught.value)
