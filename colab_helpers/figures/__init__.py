"""Figures in one style: units on the axes, the finding in the title, alt text for screen readers.

Each function returns a `Picture`, the value of a cell. Pictures stand on a white card, so that they read
the same in light and dark themes. Color is never the only difference: every curve has its own marker or
dash. No pyplot, so no backend and no global state.
"""

from __future__ import annotations

from colab_helpers.figures.bars import bars
from colab_helpers.figures.line_plots import lines
from colab_helpers.figures.style import COLORS, MARKERS, Picture, canvas, finish

__all__ = ["COLORS", "MARKERS", "Picture", "bars", "canvas", "finish", "lines"]
