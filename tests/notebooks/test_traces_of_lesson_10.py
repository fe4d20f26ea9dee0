"""Lesson 10's own lines find a culprit that was planted in a small trace of PyTorch's format."""

import gzip
import json

import pytest

from colab_lessons import trace_downloads
from course.write import assemble

STEP, GAP, BLOCKED = 1000, 400, 500  # microseconds


def planted(at, step):
    """One step: cheap reads, two kernels, a gap, and a copy of 96 bytes that blocks Python."""
    rows = [("user_annotation", f"ProfilerStep#{step}", at, STEP, 1, {})]
    rows += [("cpu_op", "aten::item", at + 2 * place, 1, 1, {}) for place in range(20)]
    rows += [("cpu_op", "aten::copy_", at + 90, BLOCKED + 10, 1, {})]
    on_gpu = (
        ("cudaGraphLaunch", at + 50, 5, "kernel", "k", at, STEP - GAP, {"stream": 7}),
        ("cudaLaunchKernel", at + 60, 5, "kernel", "other", at + 300, 9, {"stream": 9}),
        ("cudaMemcpyAsync", at + 95, BLOCKED, "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)",
         at + 590, 2, {"stream": 7, "bytes": 96}),
    )  # fmt: skip
    for call, launched, took, cat, name, ts, dur, args in on_gpu:
        mark = {"correlation": launched}
        rows += [
            ("cuda_runtime", call, launched, took, 1, mark),
            (cat, name, ts, dur, 7, args | mark),
        ]
    rows += [("gpu_memcpy", "Memcpy DtoD (Device -> Device)", at + 650, 50, 7, {})]
    keys = ("ph", "cat", "name", "ts", "dur", "tid", "args")
    return [dict(zip(keys, ("X", *row), strict=True)) for row in rows]


def test_the_planted_culprit_is_found(course, tmp_path, monkeypatch, capsys):
    trace = {"traceEvents": [{"ph": "M", "name": "process"}, *planted(0, 0), *planted(STEP, 1)]}
    for name in trace_downloads.table():
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))
    monkeypatch.setenv(trace_downloads.FOLDER_VARIABLE, str(tmp_path))
    cells = assemble.build(course, course.select(["10"])[0]).cells
    begin = next(i for i, cell in enumerate(cells) if "parameters" in assemble.tags_of(cell))
    end = next(i for i, cell in enumerate(cells) if "## A loop to take apart" in cell.source)
    used = cells[begin:end] + [cell for cell in cells if "device_copies" in cell.source]
    names: dict = {}
    for cell in used:
        if cell.cell_type == "code":
            exec(cell.source, names)
    text = capsys.readouterr().out
    assert names["a100_idle"] == pytest.approx(100 * (GAP - 50) / STEP)
    assert "40 calls to .item()" in text and names["asked"] == 0
    assert names["of_items"] == pytest.approx(0.04)
    assert "0.5 ms  cudaMemcpyAsync" in text and "96 bytes" in text
    assert names["medians"]["A100"] == pytest.approx(0.495)  # without the graph
    assert names["ended_by"] == {"cudaGraphLaunch": pytest.approx(0.3)}
    assert names["copy_ms"] == pytest.approx(0.1)
