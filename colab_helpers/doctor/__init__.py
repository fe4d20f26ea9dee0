"""What does this error mean, and what in this notebook is gone?

Both look into tables: `problems.toml` has what goes wrong and the way out, `retired.toml` what old
notebooks use and today's machines no longer have.
"""

from __future__ import annotations

from colab_helpers.doctor.clues import Clue
from colab_helpers.doctor.explain import Explanation, explain_error
from colab_helpers.doctor.notebooks import IN_NOTEBOOKS, explain_notebook
from colab_helpers.doctor.problems import PAGE, PAGES, Case, Finding, Problem, known_problems, page

__all__ = [
    "IN_NOTEBOOKS",
    "PAGE",
    "PAGES",
    "Case",
    "Clue",
    "Explanation",
    "Finding",
    "Problem",
    "explain_error",
    "explain_notebook",
    "known_problems",
    "page",
]
