"""Figures for lessons: those of `colab_helpers.figures`, and those that one lesson uses."""

from __future__ import annotations

from colab_helpers.figures import (
    COLORS,
    MARKERS,
    Picture,
    bars,
    canvas,
    finish,
    lines,
    timeline,
)
from colab_lessons.figures.activity import activity
from colab_lessons.figures.diagrams import ring, systolic
from colab_lessons.figures.grouped import grouped
from colab_lessons.figures.kernels import sectors, writers
from colab_lessons.figures.lanes import lanes
from colab_lessons.figures.levels import levels
from colab_lessons.figures.lifetimes import lifetimes
from colab_lessons.figures.lives import lives
from colab_lessons.figures.numbers import bit_layout
from colab_lessons.figures.panels import panels
from colab_lessons.figures.parts import parts
from colab_lessons.figures.prices import prices
from colab_lessons.figures.race import contenders, race
from colab_lessons.figures.ratios import ratios
from colab_lessons.figures.roofs import roofs
from colab_lessons.figures.stacked import stacked
from colab_lessons.figures.trace import trace

__all__ = [
    "COLORS",
    "MARKERS",
    "Picture",
    "activity",
    "bars",
    "bit_layout",
    "canvas",
    "contenders",
    "finish",
    "grouped",
    "lanes",
    "levels",
    "lifetimes",
    "lines",
    "lives",
    "panels",
    "parts",
    "prices",
    "race",
    "ratios",
    "ring",
    "roofs",
    "sectors",
    "stacked",
    "systolic",
    "timeline",
    "trace",
    "writers",
]
