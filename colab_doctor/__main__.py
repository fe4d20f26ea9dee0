"""The command `colab-doctor`: what an error means, and what is gone from a notebook."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from colab_doctor.explain import explain_error
from colab_doctor.notebook import explain_notebook
from colab_doctor.notebook.ipynb_reader import read_file
from colab_helpers import __version__
from colab_helpers._cli_utils import CommandError, run, standard_input
from colab_helpers.problem_schema import Finding

_MARK = {"stop": "fails", "warn": "watch out", "note": "good to know"}
_LEVEL = {"stop": "error", "warn": "warning", "note": "notice"}
_EXAMPLES = """\
examples:
  colab-doctor --error "No CUDA GPUs are available"
  colab-doctor --notebook *.ipynb               what in them no longer runs on Colab
  colab-doctor --github --notebook *.ipynb      the same, as annotations for GitHub Actions

exit code:
  0  the error is known; nothing in the notebooks fails
  1  the error is not known; something in a notebook fails, or misleads
  2  the input cannot be read, or the output not written
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    return run(lambda: _answer(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="colab-doctor",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--github", action="store_true", help="print annotations for GitHub")
    ask = parser.add_mutually_exclusive_group(required=True)
    ask.add_argument("--notebook", type=Path, nargs="+", metavar="FILE", help="find removed APIs")
    ask.add_argument("--error", nargs="+", metavar="TEXT", help="explain it; - reads stdin")
    return parser


def _answer(options: argparse.Namespace) -> int:
    if options.notebook:
        return print_notebook_report(
            options.notebook, as_json=options.json, for_github=options.github
        )
    text = " ".join(options.error)
    text = standard_input() if text == "-" else text
    if not text.strip():
        raise CommandError(
            "No error text given. Paste the last line of the traceback, or all of it."
        )
    return print_explanation(text, options.json)


def print_explanation(text: str, as_json: bool = False) -> int:
    """Print what an error means; return 0 where it is known, 1 where not.

    `text` is what the person pasted; `as_json`: print data instead of lines.
    """
    if _is_file(text):
        raise CommandError(f"{text} is a file. To read it, run: colab-doctor --error - < {text}")
    explanation = explain_error(text)
    if as_json:
        print(json.dumps(dataclasses.asdict(explanation), indent=2))
    else:
        print(explanation)
    return 0 if explanation else 1


def _is_file(text: str) -> bool:
    try:
        return len(text.split()) == 1 and Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a character that none has
        return False


def print_notebook_report(
    paths: Sequence[Path], *, as_json: bool = False, for_github: bool = False
) -> int:
    """Print what notebooks ask for that is gone; return 1 where something fails or misleads, else 0.

    `paths` are .ipynb files; `as_json`: a list for each file; `for_github`: as annotations, which GitHub
    shows beside the file. A file that cannot be read is named, the others are judged, and 2 is returned.
    """
    found: dict[Path, Sequence[Finding]] = {}
    unreadable: dict[Path, str] = {}
    for path in paths:
        try:
            found[path] = _without_neighbors(path, explain_notebook(read_file(path)))
        except CommandError as error:
            unreadable[path] = str(error)
    if as_json:
        data = {
            str(path): [dataclasses.asdict(one) for one in ones] for path, ones in found.items()
        }
        print(json.dumps(data, indent=2))
    elif for_github:
        lines = [line for path, findings in found.items() for line in _annotations(path, findings)]
        lines += [
            f"::error file={_escaped(str(p), ':,')}::{_escaped(w)}" for p, w in unreadable.items()
        ]
        print(*lines, sep="\n")
    elif found:
        print("\n\n".join(_lines(path, findings) for path, findings in found.items()))
    print(*unreadable.values(), sep="\n", end="\n" if unreadable else "", file=sys.stderr)
    fails = any(one.severity != "note" for findings in found.values() for one in findings)
    return 2 if unreadable else int(fails)


def _without_neighbors(path: Path, findings: Sequence[Finding]) -> Sequence[Finding]:
    """Findings without the imports of modules that lie beside the notebook."""

    def lies_there(finding: Finding) -> bool:
        module = finding.observation.rpartition(" ")[2]
        return any((path.parent / name).exists() for name in (f"{module}.py", module))

    return [one for one in findings if one.id != "not-on-colab" or not lies_there(one)]


def _lines(path: Path, findings: Sequence[Finding]) -> str:
    """What was found in a file: each reason once, with its lines."""
    if not findings:
        return f"{path}: nothing found that is gone."
    groups: dict[tuple[str, str], list[str]] = {}
    for one in findings:
        groups.setdefault((one.severity, one.fix), []).append(one.observation)
    texts = []
    for (severity, fix), lines in groups.items():
        texts += ["", f"  {_MARK[severity]}: {fix}", *(f"      {line}" for line in lines)]
    return "\n".join([f"{path}:", *texts, "", "Cell numbers include text cells."])


def _annotations(path: Path, findings: Sequence[Finding]) -> list[str]:
    """Lines that GitHub Actions turn into notes beside a file."""
    if not findings:
        return [f"{path}: nothing found that is gone."]
    return [
        f"::{_LEVEL[one.severity]} file={_escaped(str(path), ':,')},"
        f"title={_escaped(one.observation, ':,')}::{_escaped(one.fix)}"
        for one in findings
    ]


def _escaped(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


if __name__ == "__main__":
    raise SystemExit(main())
