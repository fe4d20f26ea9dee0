"""What does `colab-helpers doctor` print of errors and notebooks, and with which exit code?"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from colab_helpers._files import UnreadableError
from colab_helpers.doctor.explain import explain_error
from colab_helpers.doctor.notebooks import explain_notebook
from colab_helpers.doctor.problems import Finding, page

#: Bytes of a notebook that are read: more is no notebook that somebody wrote.
_MOST = 256 * 2**20
_MARK = {"stop": "fails", "warn": "watch out", "note": "good to know"}
_LEVEL = {"stop": "error", "warn": "warning", "note": "notice"}


def judge_error(text: str, as_json: bool) -> int:
    """Print what an error means; return 0 where it is known, 1 where not.

    `text` is what the person pasted; `as_json`: print data instead of lines.
    """
    if len(text) < 500 and Path(text).is_file():
        raise UnreadableError(
            f"{text} is a file. To have it read: colab-helpers doctor --error - < {text}"
        )
    explanation = explain_error(text)
    if as_json:
        print(json.dumps(dataclasses.asdict(explanation), indent=2))
    else:
        print(explanation if explanation else f"{explanation}\nAll that is known: {page()}")
    return 0 if explanation else 1


def judge_notebooks(
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
            found[path] = _beside(path, explain_notebook(_notebook(path)))
        except UnreadableError as error:
            unreadable[path] = str(error)
    if as_json:
        data = {
            str(path): [dataclasses.asdict(one) for one in findings]
            for path, findings in found.items()
        }
        print(json.dumps(data, indent=2))
    elif for_github:
        lines = [line for path, findings in found.items() for line in _annotations(path, findings)]
        lines += [
            f"::error file={_escaped(str(p), ':,')}::{_escaped(w)}" for p, w in unreadable.items()
        ]
        print(*lines, sep="\n")
    elif found:
        print("\n\n".join(_told(path, findings) for path, findings in found.items()))
    print(*unreadable.values(), sep="\n", end="\n" if unreadable else "", file=sys.stderr)
    fails = any(one.severity != "note" for findings in found.values() for one in findings)
    return 2 if unreadable else int(fails)


def _beside(path: Path, findings: Sequence[Finding]) -> Sequence[Finding]:
    """Findings without the imports of modules that lie beside the notebook."""

    def lies_there(finding: Finding) -> bool:
        module = finding.seen.rpartition(" ")[2]
        return any((path.parent / name).exists() for name in (f"{module}.py", module))

    return [one for one in findings if one.id != "not-on-colab" or not lies_there(one)]


def _told(path: Path, findings: Sequence[Finding]) -> str:
    """What was found in a file: each reason once, with its lines."""
    if not findings:
        return f"{path}: nothing found that is gone."
    groups: dict[tuple[str, str], list[str]] = {}
    for one in findings:
        groups.setdefault((one.severity, one.remedy), []).append(one.seen)
    texts = []
    for (severity, remedy), lines in groups.items():
        texts += ["", f"  {_MARK[severity]}: {remedy}", *(f"      {line}" for line in lines)]
    return "\n".join([f"{path}:", *texts, "", "Cell numbers include text cells."])


def _annotations(path: Path, findings: Sequence[Finding]) -> list[str]:
    """Lines that GitHub Actions turn into notes beside a file."""
    if not findings:
        return [f"{path}: nothing found that is gone."]
    return [
        f"::{_LEVEL[one.severity]} file={_escaped(str(path), ':,')},title={_escaped(one.seen, ':,')}"
        f"::{_escaped(one.remedy)}"
        for one in findings
    ]


def _escaped(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _notebook(path: Path) -> Mapping:
    try:
        if path.exists() and not path.is_file():  # a pipe or a device would never end
            raise UnreadableError(f"{path} is no file.")
        with path.open("rb") as file:
            content = file.read(_MOST)
        notebook = json.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {error.strerror}.") from error
    except json.JSONDecodeError as error:
        raise UnreadableError(
            f"{path} is not a notebook: no valid JSON at line {error.lineno}."
        ) from error
    except (UnicodeDecodeError, RecursionError):
        notebook = None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise UnreadableError(f"{path} is not a notebook: it has no list of cells.")
    return notebook
