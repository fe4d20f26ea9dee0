"""What the commands share: exit codes, broken pipes, standard input, types of arguments."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable


class CommandError(ValueError):
    """A command cannot do what it was asked for: it prints this message and exits with code 2."""


def run(answer: Callable[[], int]) -> int:
    """Return the exit code of `answer`, which prints; 2 where its input or output fails, in one line."""
    try:
        code = answer()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has stopped reading
        _let_go_of_output()
        return 0
    except CommandError as why:
        print(why, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename or 'The output'}: {error.strerror or error}.", file=sys.stderr)
        _let_go_of_output()
        return 2
    return code


def standard_input() -> str:
    """Return the text on standard input. Raises `CommandError` where it is closed."""
    try:
        if sys.stdin is None:
            raise OSError("it is closed")
        return sys.stdin.read()
    except (OSError, ValueError) as error:
        raise CommandError(f"Standard input cannot be read: {error}.") from error


def positive_integer(text: str) -> int:
    """Return a whole number above 0, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a positive integer")
    return int(text)


def _let_go_of_output() -> None:
    """Redirect stdout to the null device, or Python's flush at exit would fail once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # captured, or closed
        pass
    finally:
        os.close(nowhere)
