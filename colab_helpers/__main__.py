"""The command `colab-helpers`: what the status card says, in a terminal."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from colab_helpers import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 when this machine is fit, 1 when not."""
    parser = argparse.ArgumentParser(prog="colab-helpers", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser("doctor", help="say where you are, what you have, what to mend")
    doctor.add_argument("--json", action="store_true", help="for machines")
    options = parser.parse_args(arguments)

    from colab_helpers import preflight

    card = preflight.status_card()
    print(json.dumps(card.to_dict(), indent=2, default=str) if options.json else card)
    return 0 if card.fits else 1


if __name__ == "__main__":
    raise SystemExit(main())
