"""Runs cells that fail in an IPython shell, with and without the extension, and prints what was shown.

Run by test_hook.py, also by hand with another IPython: `python cells_that_fail.py`, the helper on the path.
"""

import contextlib
import io
import json
import sys
import warnings

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

CELLS = {
    "known": "raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')",
    "unknown": "{}['a']",
    "nested": "def f():\n    g()\ndef g():\n    raise OSError(28, 'No space left on device')\nf()",
    "chained": "try:\n    raise OSError(28, 'No space left on device')\n"
    "except OSError as error:\n    raise ValueError('x') from error",
    "thread": "import threading\nt = threading.Thread(target=lambda: [][1]); t.start(); t.join()",
    "interrupt": "raise KeyboardInterrupt",
    "exit": "raise SystemExit(3)",
    "syntax": "print 'x'",
    "mute": "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute()",
    "fine": "print('CUDA out of memory')",
}


def main():
    # InteractiveShell, and not the terminal's: SystemExit would ask
    shell = InteractiveShell.instance()
    warnings.simplefilter("always")
    shell.colors = "NoColor"
    shell.run_line_magic("colors", "NoColor")
    shown = {}
    for loaded in (False, True):
        if loaded:
            shell.run_line_magic("load_ext", "colab_doctor")
            shell.run_line_magic("reload_ext", "colab_doctor")  # a second time changes nothing
        for name, source in CELLS.items():
            shell.execution_count = 1
            stderr = io.StringIO()
            with contextlib.redirect_stderr(stderr), capture_output(stderr=False) as told:
                shell.run_cell(source, store_history=False)
            cards = [one.data.get("text/plain", "") for one in told.outputs]
            shown.setdefault(name, []).append([told.stdout, stderr.getvalue(), cards])
    shell.run_line_magic("unload_ext", "colab_doctor")
    with capture_output() as told:
        shell.run_cell(CELLS["known"], store_history=False)
    shown["unloaded"] = [[told.stdout, "", [str(one) for one in told.outputs]]] * 2
    print("SHOWN" + json.dumps(shown))


if __name__ == "__main__":
    sys.exit(main())
