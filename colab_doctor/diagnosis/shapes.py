"""The sizes that an error of a matrix product carries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from colab_doctor.diagnosis.base import Diagnosis, Failure

_PRODUCT = re.compile(r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)")
_SMALLEST = 8  # of a side; below, squares are everywhere


def diagnose(failure: Failure) -> Iterator[Diagnosis]:
    """Yield the two sizes of the product in `failure`, and how they may belong together."""
    product = _PRODUCT.search(failure.text)
    if product is None:
        return
    columns, rows = int(product[2]), int(product[3])
    observation = f"the first has {columns} columns, the second {rows} rows."
    small, large = sorted((columns, rows))
    if small >= _SMALLEST and large in (small**2, 3 * small**2):
        observation += f" {large} = {large // small**2} × {small} × {small}: flatten the image."
    yield Diagnosis("tensor-shapes", observation, "")
