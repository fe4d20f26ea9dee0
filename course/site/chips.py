"""Chips side by side: data sheets and published measurements, as one page of tables."""

from __future__ import annotations

from colab_helpers import facts, published
from colab_helpers.hardware import Chip, catalogue
from course.write.tables import table

_FORMATS = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8")


def page() -> str:
    """Return the page: what data sheets promise, what Colab asks for it, what others measured."""
    lines = [
        "# Chips side by side",
        "",
        "Click a column heading to sort by it. Will your model fit on one of them? [Calculate](fits.md).",
        "",
        "## What data sheets promise",
        "",
        "Peaks in TFLOP/s (int8: TOP/s) without sparsity: halved where the maker prints figures with it.",
        "*Balance* is FLOP per byte in the best format: code that does less with each byte waits for memory",
        "([lesson 02](lessons/02_check_hardware.ipynb)).",
        "",
        _sortable(_sheets()),
        "",
        "## What Colab has of them",
        "",
        f"As users saw it; Google does not publish it: {facts.machine_table().origin.source}.",
        "*Units* are the compute units that Colab sells. What is on the free menu costs none without a",
        "subscription.",
        "",
        _sortable(_machines()),
        "",
        "## What others measured",
        "",
        f"The best of each, of {len(published.everything())} measurements looked up at their source.",
        "[All of them](published.md).",
        "",
        _sortable(_products()),
        "",
    ]
    return "\n".join(lines)


def _sortable(text: str) -> str:
    return f":::{{div}} sortable\n\n{text}\n\n:::"


def _sheets() -> str:
    head = ("chip", "year", "memory, GB", "bandwidth, GB/s", *_FORMATS, "balance", "source")
    return table(head, (_sheet(chip) for chip in catalogue().values()))


def _sheet(chip: Chip) -> tuple[str, ...]:
    peaks = (f"{chip.peak[name] / 1e12:g}" if name in chip.peak else "–" for name in _FORMATS)
    return (
        chip.name,
        str(chip.year),
        f"{chip.memory / 1e9:g}",
        f"{chip.bandwidth / 1e9:g}",
        *peaks,
        f"{chip.ridge():.0f}",
        f"[data sheet]({chip.url}), {chip.seen}",
    )


def _machines() -> str:
    menu = facts.machine_table()
    head = ("choice", "chip", "vCPU", "RAM", "on the menu", "units per hour", "US$ per hour")
    rows = (
        (
            machine.choice,
            catalogue()[machine.chip].name if machine.chip else "–",
            str(machine.vcpus or "–"),
            str(machine.ram or "–"),
            machine.tier,
            f"{machine.units_per_hour:g}" if machine.units_per_hour is not None else "unknown",
            f"{machine.units_per_hour * menu.dollars_per_unit:.2f}"
            if machine.units_per_hour is not None
            else "–",
        )
        for machine in menu.machines
    )
    return table(head, rows)


def _products() -> str:
    """The fastest matrix product that somebody has published, by chip and format."""
    best: dict[tuple[str, str], published.Published] = {}
    for row in published.everything().values():
        if row.topic != "matmul":
            continue
        key = (row.chip, row.what)
        if key not in best or max(row.y) > max(best[key].y):
            best[key] = row
    lines = (
        (chip, what, f"{max(row.y) / 1e12:.4g}", f"[{row.source}]({row.url}), {row.when}")
        for (chip, what), row in sorted(best.items())
    )
    return table(("chip", "what", "TFLOP/s at best", "by"), lines)
