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
    if columns >= _SMALLEST and rows in (columns**2, 3 * columns**2):
        shape = f"{rows // columns**2} × {columns} × {columns}"
        observation += f" {rows} = {shape}: flatten the image."
    yield Diagnosis("tensor-shapes", observation, "")
