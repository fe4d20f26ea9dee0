"""Parse an untrusted notebook; check types and sizes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from colab_helpers._rich_display import RECORD_MIME
from colab_lessons.measurements import Record, RecordError

STATUS = ("open", "wrong", "right")
_MAX_CELLS, _MAX_VALUES, _MAX_TEXT = 5000, 300, 120


@dataclass(frozen=True)
class Cell:
    """What is read of a cell."""

    cell_type: str
    source: str
    outputs: tuple[Mapping[str, Any], ...] = ()
    execution_count: int | None = None


@dataclass(frozen=True)
class Notebook:
    """What is read of a notebook."""

    cells: tuple[Cell, ...]


def parse(content: bytes) -> Notebook:
    """Return the cells of a file, whatever else it holds. Raises ValueError where it holds none."""
    if other := _identify_other_file(content):
        raise ValueError(other)
    data = json.loads(content.decode("utf-8-sig", "replace"))
    if not isinstance(data, dict) or not isinstance(data.get("cells"), list):
        raise ValueError("no list of cells")
    if len(data["cells"]) > _MAX_CELLS:
        raise ValueError(f"{len(data['cells']):,} cells")
    if b"\\ud" in content.lower():  # halves of letters, which no file can hold
        data = _replace_surrogates(data)
    return Notebook(tuple(_cell(cell) for cell in data["cells"] if isinstance(cell, dict)))


def _identify_other_file(content: bytes) -> str:
    """Name the kind of file that students hand in by mistake; "" if `content` is none of these."""
    start = content[:2000].lstrip().lower()
    if not content.strip(b"\0 \t\r\n"):
        return "it is empty"
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or start[1:2] == b"\0":
        return "it is in UTF-16: save it as UTF-8, as Jupyter and Colab do"
    if start.startswith((b"<!doctype", b"<html")):
        return "it is a web page, such as a login, saved in the notebook's place"
    if start.startswith(b"version https://git-lfs"):
        return "it is a pointer of Git LFS: git lfs pull fetches the file itself"
    if re.search(rb"^(<<<<<<<|>>>>>>>) ", content, re.MULTILINE):
        return "a merge conflict of Git is in it: <<<<<<< and >>>>>>>"
    if start.startswith(b"{") and b'"doc_id"' in start and b'"cells"' not in start:
        return "it is a shortcut to a file on Google Drive"
    return ""


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_replace_surrogates(one) for one in value]
    return (
        {_replace_surrogates(key): _replace_surrogates(one) for key, one in value.items()}
        if isinstance(value, dict)
        else value
    )


def _cell(cell: Mapping[str, Any]) -> Cell:
    outputs = cell.get("outputs") if isinstance(cell.get("outputs"), list) else []
    count = cell.get("execution_count")
    return Cell(
        str(cell.get("cell_type", "")),
        text_of(cell.get("source")),
        tuple(output for output in outputs or [] if isinstance(output, dict)),
        count if isinstance(count, int) else None,
    )


def text_of(value: Any) -> str:
    """Return a text, or the lines of one, as text; "" for anything else."""
    lines = value if isinstance(value, list) else [value]
    return "".join(line for line in lines if isinstance(line, str))


def records(notebook: Notebook, problems: list[str]) -> Iterator[Record]:
    """Yield the records that a notebook holds; why one cannot be read goes into `problems`."""
    for data in machine_outputs(notebook):
        if data.get("kind") == "record":
            try:
                yield _validated(Record.from_dict(data))
            except (RecordError, TypeError, ValueError, OverflowError) as error:
                message = str(error).partition(" Measure it again")[0]  # that is for maintainers
                problems.append(f"its record cannot be read: {message[:_MAX_TEXT]}")


def _validated(record: Record) -> Record:
    """A record whose texts are texts and whose numbers are numbers; it may have been written by hand."""
    values, predictions = list(record.values.values()), list(record.predictions.values())
    run, tried = record.run, list(record.exercises.values())
    texts = [
        record.lesson,
        record.device,
        record.date,
        record.platform,
        run.id,
        run.began,
        run.recorded,
    ]
    texts += [text for value in values for text in (value.unit, value.meaning)]
    texts += [one.unit for one in predictions] + [one.message for one in tried]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text field is not a string")
    if len(values) > _MAX_VALUES or any(len(text) > 1000 for text in texts):
        raise ValueError("it is too large")
    if not all(_is_number(value.number) for value in values):
        raise ValueError("a value is not a number")
    if not all(one.status in STATUS and type(one.tries) is int for one in tried):
        raise ValueError("the status of an exercise is invalid")
    return record


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < 1e300


def machine_outputs(notebook: Notebook) -> Iterator[Mapping[str, Any]]:
    """Yield what the cells of a notebook handed to machines: records, and verdicts on exercises."""
    for cell in notebook.cells:
        for output in cell.outputs:
            data = output.get("data")
            handed = data.get(RECORD_MIME) if isinstance(data, dict) else None
            if isinstance(handed, dict):
                yield handed
