"""Kernels in the simulator: who touched what, counted and drawn."""

import subprocess
import sys

import numpy as np
from numba import cuda, float32

from colab_lessons import cuda_simulator, figures
from tests.colab_lessons import puzzles

TILE = 4


def across(a, b, c):
    i, j = cuda.grid(2)
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


def tiled(a, b, c):
    x = cuda.shared.array((TILE, TILE), float32)
    y = cuda.shared.array((TILE, TILE), float32)
    j, i = cuda.grid(2)
    total = 0.0
    for start in range(0, a.shape[1], TILE):
        x[cuda.threadIdx.y, cuda.threadIdx.x] = a[i, start + cuda.threadIdx.x]
        y[cuda.threadIdx.y, cuda.threadIdx.x] = b[start + cuda.threadIdx.y, j]
        cuda.syncthreads()
        for k in range(TILE):
            total += x[cuda.threadIdx.y, k] * y[k, cuda.threadIdx.x]
        cuda.syncthreads()
    c[i, j] = total


def product(kernel, n=8):
    a, b = np.random.default_rng(0).random((2, n, n), dtype=np.float32)
    watched = cuda_simulator.launch(
        kernel, (n // TILE, n // TILE), (TILE, TILE), a, b, np.zeros((n, n), np.float32)
    )
    assert np.allclose(watched[2].array, a @ b, atol=1e-4)
    return watched


def test_every_read_is_noted_with_its_thread():
    a, _, c = product(across)
    assert len(a.reads) == 8**3 and len(c.writes) == 64
    first = min(c.writes, key=lambda access: (access.block, access.thread))
    assert (first.block, first.thread, first.warp, first.cell) == ((0, 0), (0, 0), 0, (0, 0))
    assert {access.block for access in c.writes} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_sectors_are_counted_as_a_warp_asks_for_them():
    """A block of 4 × 4 is one half of a warp: for each k it reads 4 rows of a, a sector each."""
    a, b, _ = product(across)
    assert a.sectors == 4 * 8 * 4  # blocks × steps × rows
    assert b.sectors == 4 * 8 * 1  # four neighbors, one sector
    assert cuda_simulator.traffic([a, b]) == 32 * (128 + 32)


def test_tiles_read_each_number_once_for_a_block():
    a, b, _ = product(tiled)
    assert len(a.reads) == len(b.reads) == 8**3 // TILE


def test_what_lies_outside_is_noted_and_nothing_else_changes():
    _, out = cuda_simulator.launch(
        puzzles.unguarded, (2, 2), (4, 4), np.ones((5, 6), np.float32), np.zeros((5, 6), np.float32)
    )
    assert len(out.outside) == 64 - 30 and out.array.sum() == 60
    assert all(not (access.cell[0] < 5 and access.cell[1] < 6) for access in out.outside)


def behind(x, out):
    out[cuda.threadIdx.x - 1] = 1


def test_a_negative_index_is_outside_as_on_a_gpu():
    _, out = cuda_simulator.launch(behind, 1, 2, np.zeros(2), np.zeros(2))
    assert [access.cell for access in out.outside] == [(-1,)] and out.array.tolist() == [1, 0]


def test_without_the_simulator_it_says_what_to_do():
    code = (
        "import os; os.environ.pop('NUMBA_ENABLE_CUDASIM', None)\n"
        "import numpy; from colab_lessons import cuda_simulator\n"
        "cuda_simulator.launch(lambda x: None, 1, 1, numpy.zeros(1))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "simulator is off. Set NUMBA_ENABLE_CUDASIM=1 before numba is imported" in done.stderr


def test_the_script_for_a_gpu_runs_in_the_simulator(monkeypatch):
    """No GPU here: the same script, with the simulator left on, multiplies and times."""
    monkeypatch.setattr(cuda_simulator, "_SIMULATOR", "SOMETHING_ELSE")
    seconds = cuda_simulator.time_on_gpu([across, tiled], size=8, tile=TILE)
    assert list(seconds) == ["across", "tiled"] and all(one > 0 for one in seconds.values())


def test_writers_tell_who_wrote_and_what_is_missing():
    for kernel, words in {
        puzzles.guarded: "30 of 30 written by one thread, by 4 blocks; 0 writes outside",
        puzzles.nothing: "0 of 30 written by one thread, by 0 blocks; 0 writes outside",
        puzzles.unguarded: "30 of 30 written by one thread, by 4 blocks; 34 writes outside",
        puzzles.all_of_them: "0 of 30 written by one thread, by 4 blocks; 0 writes outside",
    }.items():
        x, out = np.ones((5, 6), np.float32), np.zeros((5, 6), np.float32)
        _, out = cuda_simulator.launch(kernel, (2, 2), (4, 4), x, out)
        assert figures.writers(out, title="T").alt == f"5 × 6 cells. T. {words}."


def test_sectors_tell_what_came_along():
    x, out = np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32)
    panels = {
        kernel.__name__: cuda_simulator.launch(kernel, 32, 32, x, out)[0]
        for kernel in (puzzles.along_rows, puzzles.down_columns, puzzles.nothing)
    }
    said = figures.sectors(panels, title="T").alt
    assert "along_rows: 32 numbers in 4 sectors; down_columns: 32 numbers in 32 sectors" in said
    assert "nothing: 0 numbers in 0 sectors" in said


def test_each_block_has_barriers_of_its_own():
    def second_block_leaves(a, out):
        if cuda.blockIdx.x == 1:
            return
        cuda.syncthreads()
        out[cuda.threadIdx.x] = a[cuda.threadIdx.x]

    out = cuda_simulator.launch(second_block_leaves, 2, 4, np.ones(4), np.zeros(4))[1]
    assert out.array.tolist() == [1, 1, 1, 1]


def test_a_read_outside_is_no_write_outside():
    def neighbor(b):
        i = cuda.threadIdx.x
        b[i] = b[i + 1]

    [b] = cuda_simulator.launch(neighbor, 1, 4, np.ones(4))
    assert len(b.outside) == 1 and b.written_outside == []
    assert "0 writes outside" in figures.writers(b, title="T").alt
