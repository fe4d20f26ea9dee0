"""The exercises of each lesson, and what judges an answer: `check("01.speedup", answer)`."""

from colab_lessons.exercises.judging import Verdict, check, get

__all__ = ["Verdict", "check", "get"]
