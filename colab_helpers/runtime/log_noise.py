"""What C++ libraries write while they start, caught before a learner reads it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def capture_stderr() -> Iterator[None]:
    """Capture what C++ libraries write to stderr in this block; show it if the block raises.

    Works on the file descriptor, below Python's own `sys.stderr`.

    >>> with capture_stderr():
    ...     _ = os.write(2, b"noise")
    """
    failed = True
    saved = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
            failed = False
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            kept.seek(0)
            if failed:
                os.write(2, kept.read())
