"""How do I show it? The course's plots: one style, units on the axes, the finding in the title.

Every plot is a `Picture`: the value of a cell, with alt text for those who hear it. Pictures stand
on a white card, so that they read the same in light and dark themes. Colour is never the only
difference: every curve has its own marker or dash. No pyplot, so no backend and no global state.
"""

from __future__ import annotations

from colab_helpers.figures.activity import activity
from colab_helpers.figures.bars import bars, grouped
from colab_helpers.figures.diagrams import blocks, systolic
from colab_helpers.figures.memory import timeline
from colab_helpers.figures.numbers import bit_layout, histogram
from colab_helpers.figures.plots import Roof, lanes, lines, roofline, spans
from colab_helpers.figures.race import race
from colab_helpers.figures.ranges import ranges
from colab_helpers.figures.ratios import ratios, trade
from colab_helpers.figures.resumes import lives, resumes
from colab_helpers.figures.style import COLOURS, MARKERS, Picture, canvas, finish

__all__ = [
    "COLOURS",
    "MARKERS",
    "Picture",
    "Roof",
    "activity",
    "bars",
    "bit_layout",
    "blocks",
    "canvas",
    "finish",
    "grouped",
    "histogram",
    "lanes",
    "lines",
    "lives",
    "race",
    "ranges",
    "ratios",
    "resumes",
    "roofline",
    "spans",
    "systolic",
    "timeline",
    "trade",
]
