"""How does a check say what it found? In the words of the table, for the platform it is on."""

from __future__ import annotations

from colab_helpers.preflight.problems import finding, way_out
from colab_helpers.preflight.state import Finding, State


def found(state: State, id: str, seen: str, remedy: str = "") -> Finding:
    """Return the finding `id`, with the table's way out for this platform when none is given."""
    return finding(id, seen, remedy or way_out(id, state.runtime.platform))
