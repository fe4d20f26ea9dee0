"""The command `colab-helpers`: what the status card says, in a terminal."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from colab_helpers import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 when this machine is fit, 1 when not."""
    parser = argparse.ArgumentParser(prog="colab-helpers", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser("doctor", help="say where you are, what you have, what to mend")
    doctor.add_argument("--json", action="store_true", help="for machines")
    doctor.add_argument(
        "--notebook", type=Path, metavar="FILE", help="what an old notebook asks for"
    )
    doctor.add_argument(
        "--error", metavar="TEXT", help="what an error means; - reads it from stdin"
    )
    options = parser.parse_args(arguments)

    from colab_helpers import preflight

    if options.notebook:
        return _judge_notebook(options.notebook, options.json)
    if options.error:
        text = sys.stdin.read() if options.error == "-" else options.error
        return _explain(text, options.json)
    card = preflight.status_card()
    print(json.dumps(card.to_dict(), indent=2, default=str) if options.json else card)
    return 0 if card.fits else 1


def _explain(error: str, as_json: bool) -> int:
    from colab_helpers import preflight

    known = preflight.explain_error(error)
    _print(
        [known] if known else [], as_json, "This error is not among those that the course knows."
    )
    return 0 if known else 1


def _judge_notebook(path: Path, as_json: bool) -> int:
    from colab_helpers import preflight

    try:
        notebook = json.loads(path.read_text("utf-8"))
        findings = preflight.explain_notebook(notebook)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        print(f"{path} cannot be read as a notebook: {error}", file=sys.stderr)
        return 1
    _print(findings, as_json, f"{path}: nothing in it asks for a TPU that is gone.")
    return 1 if findings else 0


def _print(findings: Sequence, as_json: bool, otherwise: str) -> None:
    """Print findings for people or for machines; `otherwise` when there are none."""
    if as_json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        print(*findings or [otherwise], sep="\n\n")


if __name__ == "__main__":
    raise SystemExit(main())
