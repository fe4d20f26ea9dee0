"""The command `colab-helpers`: this machine's card, and a plan for a training."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib.util import find_spec

from colab_helpers import __version__
from colab_helpers._cli_utils import CommandError, positive_integer, run

_PLAN_EXAMPLES = """\
The function takes nothing and returns (model, forward, optimizer): forward(batch_size) makes a batch, runs
the model and returns the loss; an optimizer of None means inference. The file is run, so plan only
files that you would run. Nothing is trained, and no data is read: tensors carry shapes only.

examples:
  colab-helpers plan train.py:job --batch-size 32 --steps 10000
  colab-helpers plan train.py:job --batch-size 32 --chips T4 L4 --deadline 8 --json

exit code:
  0  it fits somewhere
  1  it fits nowhere
  2  it cannot be planned
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    return run(lambda: _card(options.json) if options.command == "card" else _plan(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="colab-helpers", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    card = commands.add_parser("card", help="what this machine has, and what to fix")
    card.add_argument("--json", action="store_true", help="print JSON")
    plan = commands.add_parser(
        "plan",
        help="where would my training fit, how long would it take, what would it cost?",
        epilog=_PLAN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("job", metavar="FILE.py:function")
    plan.add_argument("--batch-size", type=positive_integer, default=32, help="32 if left out")
    plan.add_argument("--steps", type=positive_integer, default=1000, help="1000 if left out")
    plan.add_argument("--chips", nargs="+", default=[], metavar="KEY", help="such as T4 L4 A100-40")
    plan.add_argument("--deadline", type=_hours, metavar="HOURS", help="name the cheapest in time")
    plan.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _hours(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be a positive number of hours")
    return value


def _card(as_json: bool) -> int:
    from colab_helpers import preflight

    card = preflight.status_card()
    print(json.dumps(card.to_dict(), indent=2, default=str) if as_json else card)
    return 0 if card.fits else 1


def _plan(options: argparse.Namespace) -> int:
    if find_spec("torch") is None:
        raise CommandError("Planning needs PyTorch, which is not installed here.")
    from colab_helpers.plan import plan_command

    work, table = plan_command.plan_file(options.job, options.batch_size, options.chips)
    if options.json:
        print(plan_command.to_json(work, table, options.steps, options.deadline))
    else:
        print(plan_command.format_plan(work, table, options.steps, options.deadline))
    return 0 if any(offer.fits for offer in table) else 1


if __name__ == "__main__":
    raise SystemExit(main())
