"""A card under the traceback of a cell that failed.

IPython tells when a cell has run, and whether it failed; the traceback is then on the page already,
and stays as it is.
"""

from __future__ import annotations

from typing import Any

from colab_doctor.explain import explain_error

_EVENT = "post_run_cell"


def load(shell: Any) -> None:
    """Explain from now on, under its traceback, each error of a cell that is known.

    `shell` is IPython's, as `%load_ext colab_doctor` hands it over. A second time changes nothing.
    """
    unload(shell)
    shell.events.register(_EVENT, _explain)


def unload(shell: Any) -> None:
    """Explain no more; `shell` as for `load`."""
    for callback in list(shell.events.callbacks.get(_EVENT, [])):
        if getattr(callback, "__module__", "") == __name__:  # also that of a copy imported before
            shell.events.unregister(_EVENT, callback)


def _explain(result: Any) -> None:
    """Show a card below a known error; nothing for others, nor where anything fails here."""
    error = getattr(result, "error_in_exec", None)
    if not isinstance(error, Exception):  # none, or somebody stopped the cell, or left
        return
    try:
        explanation = explain_error(error)
        if explanation:
            from IPython.display import display

            display(explanation)
    except Exception:  # the reader has an error already; a second one from here would hide it
        return
