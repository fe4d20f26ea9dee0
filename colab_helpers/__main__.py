"""The command `colab-helpers`: a lesson's card, and a plan for a training, in a terminal."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from colab_helpers import __version__
from colab_helpers._files import UnreadableError

_EXAMPLES = """\
examples:
  colab-helpers doctor                          what this machine has, and what to fix
  colab-helpers doctor --error "No CUDA GPUs are available"
  colab-helpers doctor --notebook *.ipynb       what in them no longer runs on Colab
  colab-helpers doctor --github --notebook *.ipynb   the same, as annotations for GitHub Actions

exit code:
  0  nothing to fix; the error is known; nothing in the notebooks fails (what is only deprecated is printed)
  1  something to fix; the error is not known; something in a notebook fails, or does nothing any more
  2  the input cannot be read, or the output not written
"""

_PLAN_EXAMPLES = """\
The function takes nothing and returns (model, forward, optimizer): forward(rows) makes a batch, runs the
model and returns the loss; an optimizer of None stands for inference. The file is run, so plan only files
that you would run. Nothing is trained, and no data is read: tensors have shapes alone.

examples:
  colab-helpers plan train.py:job --rows 32 --steps 10000
  colab-helpers plan train.py:job --rows 32 --chips T4 L4 --deadline 8 --json

exit code:
  0  it fits somewhere
  1  it fits nowhere
  2  it cannot be planned
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: for the doctor, 0 when this machine is fit."""
    options = _parser().parse_args(arguments)
    try:
        code = _run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has seen enough
        _let_go_of_output()
        return 0
    except UnreadableError as why:
        print(why, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"The answer could not be written: {error.strerror or error}.", file=sys.stderr)
        _let_go_of_output()
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="colab-helpers", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser(
        "doctor",
        help="what this machine has, and what to fix",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument(
        "--github", action="store_true", help="print annotations for GitHub Actions"
    )
    ask = doctor.add_mutually_exclusive_group()
    ask.add_argument(
        "--notebook", type=Path, nargs="+", metavar="FILE", help="find what no longer runs on Colab"
    )
    ask.add_argument(
        "--error", nargs="+", metavar="TEXT", help="say what an error means; - reads standard input"
    )
    plan = commands.add_parser(
        "plan",
        help="where would my training fit, how long would it take, what would it cost?",
        epilog=_PLAN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("job", metavar="FILE.py:function")
    plan.add_argument("--rows", type=_whole, default=32, help="of a batch; 32 if left out")
    plan.add_argument(
        "--steps", type=_whole, default=1000, help="of the training; 1000 if left out"
    )
    plan.add_argument("--chips", nargs="+", default=[], metavar="KEY", help="such as T4 L4 A100-40")
    plan.add_argument("--deadline", type=_hours, metavar="HOURS", help="name the cheapest in time")
    plan.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _whole(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return value


def _hours(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: give hours, more than 0")
    return value


def _run(options: argparse.Namespace) -> int:
    if options.command == "plan":
        return _plan(options)
    if not (options.notebook or options.error):
        return _judge_machine(options.json)
    from colab_helpers.doctor import command

    if options.notebook:
        return command.judge_notebooks(
            options.notebook, as_json=options.json, for_github=options.github
        )
    text = " ".join(options.error)
    return command.judge_error(_standard_input() if text == "-" else text, options.json)


def _plan(options: argparse.Namespace) -> int:
    if find_spec("torch") is None:
        raise UnreadableError("Planning needs PyTorch, which is not installed here.")
    from colab_helpers.plan import command

    try:
        work, table = command.plan_file(options.job, options.rows, options.chips)
    except command.PlanError as error:
        raise UnreadableError(str(error)) from error
    if options.json:
        print(command.to_json(work, table, options.steps, options.deadline))
    else:
        print(command.show(work, table, options.steps, options.deadline))
    return 0 if any(offer.fits for offer in table) else 1


def _standard_input() -> str:
    try:
        if sys.stdin is None:
            raise OSError("it is closed")
        return sys.stdin.read()
    except (OSError, ValueError) as error:
        raise UnreadableError(f"Standard input cannot be read: {error}.") from error


def _let_go_of_output() -> None:
    """At exit Python would try to write what is left, and fail once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # captured, or closed
        pass
    finally:
        os.close(nowhere)


def _judge_machine(as_json: bool) -> int:
    from colab_helpers import preflight

    card = preflight.status_card()
    print(json.dumps(card.to_dict(), indent=2, default=str) if as_json else card)
    return 0 if card.fits else 1


if __name__ == "__main__":
    raise SystemExit(main())
