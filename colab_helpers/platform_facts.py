"""Facts about the platform, each with its source and date.

Platforms change under a course. Every such sentence is kept once, in `platform_facts.toml`, with its source
and the date it was seen, and is shown together with both.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from colab_helpers._data_files import load_toml
from colab_helpers._dated_entry import Dated
from colab_helpers._rich_display import with_code

#: What the letters stand for.
CONFIDENCE = {"H": "first hand", "M": "reported", "L": "inferred"}


@dataclass(frozen=True)
class Fact(Dated):
    """One sentence about a platform, with its source, the date seen and the date to look again."""

    id: str
    text: str
    source: str
    url: str
    seen: date
    review: date
    confidence: str


@dataclass(frozen=True)
class Machine:
    """A machine behind the runtime menu, as users saw it. `chip` is a key of the catalog."""

    menu_name: str
    chip: str
    tier: str
    vcpus: int | None = None
    ram: str | None = None
    units_per_hour: float | None = None


@dataclass(frozen=True)
class Quotes:
    """Facts ready to be shown: HTML in a notebook, plain lines elsewhere."""

    facts: tuple[Fact, ...]

    def __str__(self) -> str:
        return "\n".join(f"- {fact.text} [{_origin(fact)}]" for fact in self.facts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = (
            f"<li style='margin:0.4em 0'>{with_code(fact.text)}<br><small><a href='{html.escape(fact.url)}'>"
            f"{html.escape(fact.source)}</a>, {fact.seen}, {CONFIDENCE[fact.confidence]}"
            "</small></li>"
            for fact in self.facts
        )
        return f"<ul style='max-width:46em'>{''.join(rows)}</ul>"


def quote(*ids: str) -> Quotes:
    """Return the facts with these ids, to be shown as the value of a cell. Raises KeyError.

    >>> print(quote("disk-used"))  # doctest: +ELLIPSIS
    - A fresh machine has about 38 GB of its disk in use already: ... [..., 2026-10-09]
    """
    known = _table().facts
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise KeyError(f"Unknown fact {', '.join(unknown)}. Available: {', '.join(sorted(known))}.")
    return Quotes(tuple(known[name] for name in ids))


@dataclass(frozen=True)
class ConsoleOutput:
    """What a tool printed on some machine, letter for letter, with where and when."""

    id: str
    text: str
    source: str
    seen: date

    def __str__(self) -> str:
        return self.text


def console_output(id: str) -> ConsoleOutput:
    """Return a recorded console output; raises KeyError with the ids there are.

    `id` is its id in `platform_facts.toml`, such as "nvidia-smi-t4".

    >>> "Tesla T4" in console_output("nvidia-smi-t4").text
    True
    """
    known = _table().console_outputs
    if id not in known:
        raise KeyError(f"Unknown console output {id}. Available: {', '.join(sorted(known))}.")
    return known[id]


@dataclass(frozen=True)
class MachineTable:
    """The machines behind Colab's runtime menu, and what a compute unit costs in US dollars."""

    machines: tuple[Machine, ...]
    origin: Fact
    dollars_per_unit: float

    @property
    def by_chip(self) -> dict[str, Machine]:
        """The first machine with each chip: what the menu gives without High-RAM."""
        found: dict[str, Machine] = {}
        for machine in self.machines:
            if machine.chip:
                found.setdefault(machine.chip, machine)
        return found


def machine_table() -> MachineTable:
    """Return the machines behind Colab's runtime menu as users saw them.

    >>> machine_table().by_chip["T4"].menu_name
    'T4 GPU'
    """
    table = _table()
    return MachineTable(table.machines, table.machines_origin, table.dollars_per_unit)


def all_facts() -> tuple[Fact, ...]:
    """Return every fact, for tables and for the check of their age."""
    return (*_table().facts.values(), _table().machines_origin)


@dataclass(frozen=True)
class _Table:
    facts: Mapping[str, Fact]
    console_outputs: Mapping[str, ConsoleOutput]
    machines: tuple[Machine, ...]
    machines_origin: Fact
    dollars_per_unit: float


@functools.cache
def _table() -> _Table:
    data = load_toml("colab_helpers", "platform_facts.toml")
    origin = Fact(id="machines", text="The machines behind the runtime menu.", **data["machines"])
    return _Table(
        facts={row["id"]: Fact(**row) for row in data["fact"]},
        console_outputs={row["id"]: ConsoleOutput(**row) for row in data["console_output"]},
        machines=tuple(Machine(**row) for row in data["machine"]),
        machines_origin=origin,
        dollars_per_unit=data["price"]["dollars_per_unit"],
    )


def _origin(fact: Fact) -> str:
    return f"{fact.source}, {fact.seen}"
