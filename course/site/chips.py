"""Chips side by side: data sheets and published measurements, as one page of tables."""

from __future__ import annotations

from colab_helpers import chip_throughput, platform_facts, published_results
from colab_helpers.hardware import Chip, catalog
from course.write.tables import table

_FORMATS = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8")
_REACHED = ("fp32", "tf32", "bf16", "fp16")


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
        "## What Colab has of them, and what it costs",
        "",
        f"As users saw it; Google does not publish it: {platform_facts.machine_table().origin.source}.",
        "*Units* are the compute units that Colab sells. What is on the free menu costs none without a",
        "subscription.",
        "",
        _sortable(_machines()),
        "",
        "## What they reach",
        "",
        "Large matrix products in TFLOP/s, copies in GB/s, and from them the balance in fp32 and in the best",
        "format. Lessons and planner reckon with these. *Italic*: nobody's measurement, but the",
        "data sheet times the shares that other chips reach.",
        f"They rest on some of {len(published_results.all_rows())} [published measurements](published.md).",
        "",
        _sortable(_reached()),
        "",
    ]
    return "\n".join(lines)


def _sortable(text: str) -> str:
    return f":::{{div}} sortable\n\n{text}\n\n:::"


def _sheets() -> str:
    head = ("chip", "year", "memory, GB", "bandwidth, GB/s", *_FORMATS, "balance", "source")
    return table(head, (_sheet(chip) for chip in catalog().values()))


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
    menu = platform_facts.machine_table()
    head = ("machine", "chip", "vCPU", "RAM", "on the menu", "units per hour", "US$ per hour")
    rows = (
        (
            machine.menu_name,
            catalog()[machine.chip].name if machine.chip else "–",
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


def _reached() -> str:
    """What each chip of Colab's menu does in practice, from `chip_throughput`."""
    head = ("chip", *_REACHED, "memory", "balance, fp32", "balance, best", "rests on")
    return table(
        head, (_row(chip_throughput.rates(key)) for key in platform_facts.machine_table().by_chip)
    )


def _row(rates: chip_throughput.Rates) -> tuple[str, ...]:
    formats = [name for name in _REACHED if name in rates]
    best = max(formats, key=lambda name: rates[name].value)
    rows = {row.partition(":")[0] for name in (*formats, "memory") for row in rates[name].rows}
    sources = sorted(
        {published_results.get(row).source: published_results.get(row).url for row in rows}.items()
    )
    return (
        rates.chip,
        *(_rate(rates, name, 1e12) for name in _REACHED),
        _rate(rates, "memory", 1e9),
        f"{rates.ridge('fp32'):.1f}" if "fp32" in rates else "–",
        f"{rates.ridge(best):.0f}",
        ", ".join(f"[{name}]({url})" for name, url in sources) or "data sheet",
    )


def _rate(rates: chip_throughput.Rates, name: str, unit: float) -> str:
    if name not in rates:
        return "–"
    value = rates[name].value / unit
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"*{text}*" if rates[name].confidence == "L" else text
