"""Figures for lessons: those of `colab_helpers.figures`, and those that one lesson uses."""

from __future__ import annotations

from colab_helpers.figures import COLORS, MARKERS, Picture, bars, canvas, finish, lines
from colab_lessons.figures.activity_timeline import activity_timeline
from colab_lessons.figures.grouped_bars import grouped_bars
from colab_lessons.figures.killed_run import killed_run
from colab_lessons.figures.loglog_plots import dot_plot, loglog
from colab_lessons.figures.memory_access import sectors, writers
from colab_lessons.figures.number_formats import bit_layout
from colab_lessons.figures.panel_grid import panels
from colab_lessons.figures.prices import prices
from colab_lessons.figures.ratios import ratios
from colab_lessons.figures.roofline import roofline
from colab_lessons.figures.stacked_area import stacked_area
from colab_lessons.figures.stacked_bars import stacked_bars
from colab_lessons.figures.systolic_and_ring import ring, systolic
from colab_lessons.figures.trace_timeline import trace_timeline

__all__ = [
    "COLORS",
    "MARKERS",
    "Picture",
    "activity_timeline",
    "bars",
    "bit_layout",
    "canvas",
    "dot_plot",
    "finish",
    "grouped_bars",
    "killed_run",
    "lines",
    "loglog",
    "panels",
    "prices",
    "ratios",
    "ring",
    "roofline",
    "sectors",
    "stacked_area",
    "stacked_bars",
    "systolic",
    "trace_timeline",
    "writers",
]
