"""Figures for lessons: those of `colab_helpers.figures`, and those that one lesson uses."""

from __future__ import annotations

from colab_helpers.figures import COLORS, MARKERS, Picture, bars, canvas, finish, lines
from colab_lessons.figures.activity import activity
from colab_lessons.figures.device_rows import device_rows
from colab_lessons.figures.diagrams import ring, systolic
from colab_lessons.figures.grouped import grouped
from colab_lessons.figures.kernels import sectors, writers
from colab_lessons.figures.killed_run import killed_run
from colab_lessons.figures.lifetimes import lifetimes
from colab_lessons.figures.number_formats import bit_layout
from colab_lessons.figures.panel_grid import panels
from colab_lessons.figures.prices import prices
from colab_lessons.figures.quantization_levels import quantization_levels
from colab_lessons.figures.race import contenders, race
from colab_lessons.figures.ratios import ratios
from colab_lessons.figures.roofline import roofline
from colab_lessons.figures.stacked import stacked
from colab_lessons.figures.stacked_bars import parts

__all__ = [
    "COLORS",
    "MARKERS",
    "Picture",
    "activity",
    "bars",
    "bit_layout",
    "canvas",
    "contenders",
    "device_rows",
    "finish",
    "grouped",
    "killed_run",
    "lifetimes",
    "lines",
    "panels",
    "parts",
    "prices",
    "quantization_levels",
    "race",
    "ratios",
    "ring",
    "roofline",
    "sectors",
    "stacked",
    "systolic",
    "writers",
]
