"""What C++ libraries write while they start, caught before a learner reads it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class LogNoise:
    """What was written to the process's stderr inside `capture_stderr`."""

    text: str = ""


@contextmanager
def capture_stderr() -> Iterator[LogNoise]:
    """Capture what C++ libraries write to stderr in this block; show it if the block raises.

    Works on the file descriptor, below Python's own `sys.stderr`.

    >>> with capture_stderr() as log:
    ...     _ = os.write(2, b"noise")
    >>> log.text
    'noise'
    """
    log, failed = LogNoise(), True
    saved = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield log
            failed = False
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            kept.seek(0)
            noise = kept.read()
            log.text = noise.decode(errors="replace")
            if failed:
                os.write(2, noise)
