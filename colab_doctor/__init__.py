"""What an error means, and what is gone from an old notebook.

`%load_ext colab_doctor` puts a card under each error that is known; `explain_error` gives the same for an
exception or a pasted text, `explain_notebook` names the lines of a notebook that no longer run. The table
is in `problems/`, a file a topic.
"""

from __future__ import annotations

from typing import Any

from colab_doctor.diagnosis import Diagnosis
from colab_doctor.explain import Explanation, explain_error
from colab_doctor.notebook import NOTEBOOK_PROBLEMS, explain_notebook
from colab_doctor.problem_table import TOPICS, known_problems

__all__ = [
    "NOTEBOOK_PROBLEMS",
    "TOPICS",
    "Diagnosis",
    "Explanation",
    "explain_error",
    "explain_notebook",
    "known_problems",
    "load_ipython_extension",
    "unload_ipython_extension",
]


def load_ipython_extension(shell: Any) -> None:
    """Explain known errors under their traceback; `%load_ext colab_doctor` calls it with `shell`."""
    from colab_doctor import hook

    hook.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Explain no more; `%unload_ext colab_doctor` calls it with `shell`."""
    from colab_doctor import hook

    hook.unload(shell)
