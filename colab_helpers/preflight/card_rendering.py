"""The card that shows a machine's state: HTML in a notebook, plain lines in a terminal."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass

from colab_helpers import _units, hardware, runtime
from colab_helpers._rich_display import edged, with_code
from colab_helpers.preflight.state import State
from colab_helpers.problem_schema import Finding


@dataclass(frozen=True)
class StatusCard:
    """Where you are, what you got, what the lesson wants, what to do."""

    lesson: str
    state: State
    findings: tuple[Finding, ...]

    @property
    def fits(self) -> bool:
        """Whether there is no problem; notes are not problems."""
        return all(finding.severity == "note" for finding in self.findings)

    def rows(self) -> list[tuple[str, str]]:
        """Return the card's lines as (label, text)."""
        place, inventory = self.state.runtime, self.state.inventory
        frameworks = ", ".join(f"{name} {v}" for name, v in place.frameworks.items()) or "none"
        rows = [
            ("You are on", f"{place.platform_name}, Python {place.python}"),
            ("You have", _device_text(inventory)),
            ("Memory", _room(place)),
            ("Frameworks", frameworks),
        ]
        wants = " ".join(filter(None, (self.state.required.accelerator, self.state.required.chip)))
        return [*rows, ("The lesson asks for", wants)] if wants else rows

    def to_dict(self) -> dict:
        """Return plain data, ready for JSON."""
        return {
            "lesson": self.lesson,
            "fits": self.fits,
            "runtime": self.state.runtime.to_dict(),
            "inventory": self.state.inventory.to_dict(),
            "findings": [asdict(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        lines = [f"{label:>19}  {text}" for label, text in self.rows()]
        for finding in self.findings:
            lines += [
                f"{_MARK[finding.severity]:>19}  {finding.observation}",
                f"{'':>19}  {finding.fix}",
                f"{'':>19}  {finding.link}",
            ]
        return "\n".join(lines if self.findings else [*lines, f"{'ready':>19}  Nothing to fix."])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td style='{_LABEL}'>{label}</td><td style='{_CELL}'>{html.escape(text)}</td></tr>"
            for label, text in self.rows()
        )
        notes = "".join(
            edged(
                f"<b>{_MARK[finding.severity]}:</b> {html.escape(finding.observation)}<br>"
                f"{with_code(finding.fix)} <a href='{html.escape(finding.link)}'>More</a>",
                finding.severity,
            )
            for finding in self.findings
        )
        ready = notes or edged("Nothing to fix.", "note")
        return f"<div style='max-width:46em'><table>{cells}</table>{ready}</div>"


_MARK = {"stop": "fix first", "warn": "watch out", "note": "good to know"}
_CELL = "text-align:left;padding:0.15em 0.6em"
_LABEL = _CELL + ";opacity:0.75;white-space:nowrap"


def _device_text(inventory: hardware.Inventory) -> str:
    cpu = f"{inventory.cpu.cores} CPU cores ({inventory.cpu.name})"
    device = inventory.accelerator
    if device is None:
        return cpu
    memory = f", {_units.format_gib(device.memory_total)}" if device.memory_total else ""
    driver = f", driver {device.driver}" if device.driver else ""
    twins = sum(other.name == device.name for other in inventory.devices)
    many = f"{twins} × " if twins > 1 else ""
    note = " each; the lessons use the first" if twins > 1 else ""
    return f"{many}{device.name}{memory}{note}{driver}; {cpu}"


def _room(place: runtime.Runtime) -> str:
    if not place.ram_total:
        return "unknown"
    ram = f"{_units.format_gib(place.ram_available)} of {_units.format_gib(place.ram_total)} free"
    return f"{ram}; disk {_units.format_gib(place.disk_free)} of {_units.format_gib(place.disk_total)} free"
