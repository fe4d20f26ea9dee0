"""The GPU of the reader's own computer, from the line that the site's page about it gives to paste.

    browser_gpu_report.read("my-gpu 1; apple metal-3; trip 0.0002; …; 01fa123a")

A line holds what course/site/static/gpu.js writes: a version, the adapter's name, numbers, a checksum.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

#: How a line of this version begins. Change it in gpu.js, too.
KIND = "my-gpu 1"
_NUMBERS = ("trip", "dispatch", "copy", "rows", "columns", "flops")
_SOFTWARE = re.compile(
    r"swiftshader|llvmpipe|lavapipe|software|basic render|\bwarp\b|\bcpu\b", re.I
)


class LineError(ValueError):
    """A line can't be used; the message says why, and what to do."""


@dataclass(frozen=True)
class BrowserGpu:
    """What a page measured through WebGPU, in fp32.

    Attributes:
        name: The adapter, as the browser calls it.
        trip: Seconds from one dispatch to its result.
        dispatch: Seconds for a dispatch among many.
        copy: Bytes/s, read and written.
        rows: Bytes/s read where neighboring threads read neighbors in a row.
        columns: Bytes/s read where they read neighbors in a column.
        flops: FLOP/s of the fastest matmul.
        matmuls: Seconds from a matmul's call to its result, by n.
    """

    name: str
    trip: float
    dispatch: float
    copy: float
    rows: float
    columns: float
    flops: float
    matmuls: Mapping[int, float]


def read(line: str) -> BrowserGpu | None:
    """Return what a pasted line holds; None for "", and for a bad one, of which it prints what's wrong.

    >>> read("")
    >>> read("hello")
    Your line isn't used: it doesn't come from the page "The GPU in front of you". Paste all that it gave you.
    """
    if not line.strip():
        return None
    try:
        return parse(line)
    except LineError as error:
        print(f"Your line isn't used: {error}")
        return None


def parse(line: str) -> BrowserGpu:
    """Return what a line holds. Raises `LineError` for one that is foreign, old, broken or impossible."""
    line = re.sub(r"^\s*mine\s*=\s*", "", line).strip().strip("\"'`").strip()
    if not line.startswith("my-gpu"):
        raise LineError(
            'it doesn\'t come from the page "The GPU in front of you". Paste all that it gave you.'
        )
    body, _, checksum = line.rpartition("; ")
    kind, *words = body.split("; ")
    if kind != KIND and body:
        raise LineError(f"it's a {kind!r}, this lesson reads {KIND!r}. Measure once more.")
    if f"{zlib.crc32(body.encode()):08x}" != checksum:
        raise LineError("a part of it is missing or changed. Copy it once more, from end to end.")
    try:
        name, *fields = words
        values = dict(field.split(" ", 1) for field in fields)
        pairs = (pair.split(":") for pair in values.pop("matmuls").split())
        matmuls = {int(n): float(seconds) for n, seconds in pairs}
        numbers = {key: float(values.pop(key)) for key in _NUMBERS}
    except (KeyError, ValueError) as error:
        raise LineError("its numbers can't be read. Measure once more.") from error
    every = [*numbers.values(), *matmuls.values()]
    if values or not matmuls or not all(math.isfinite(one) and one > 0 for one in every):
        raise LineError("its numbers can't be right. Measure once more.")
    if _SOFTWARE.search(name):
        raise LineError(f"{name} is a program on a CPU, and no GPU.")
    return BrowserGpu(name[:60], matmuls=dict(sorted(matmuls.items())), **numbers)
