"""The error that a text shows, and the log around it.

People paste all they see: start-up messages, warnings, three tracebacks, and the error somewhere in it.
"""

from __future__ import annotations

import re

#: Characters that are looked at: a quarter from the beginning of a text, the rest from its end.
MAX_CHARACTERS = 65_536

#: Colors and links that terminals and notebooks put into a traceback.
_COLORS = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]|\x1b\]8;;[^\x1b\x07]{0,500}(\x1b\\|\x07)")

#: What programs put before each line: torchrun, pytest, a quotation.
_BEFORE = r"(?:\[(?:rank)?\d{1,5}\]: ?|E {1,9}|> ?|\(\w{1,30} pid=\d{1,9}\) |ERROR: {0,3})?"

#: A line that says which exception was raised, as Python prints it.
_EXCEPTION = re.compile(  # pip indents what a build says
    rf" {{0,8}}{_BEFORE}(?:[A-Za-z_]\w{{0,60}}\.){{0,9}}[A-Z]\w{{0,60}}"
    r"(?:Error|Exception|Exit|Interrupt|Exhausted|NotFound|Timeout)(?:: |:$|$)"
)
_TRACEBACK = "Traceback (most recent call last)"
#: The first line after the frames of a traceback: an exception, whatever its name.
_AFTER_FRAMES = re.compile(
    rf"{_BEFORE}(?:[A-Za-z_][\w]{{0,60}}\.){{0,9}}[A-Za-z_]\w{{0,60}}(?:: |:?$)"
)
#: Lines between one traceback and the next.
_BETWEEN = re.compile(r"During handling of the above|The above exception was")
#: A line of a log: a date or one letter with numbers, as absl's, before the text.
_LOG = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:|[IWEF]\d{4} \d\d:|(WARNING|INFO)[:\s]|\[\d{4}-\d\d-\d\d"
)

#: Errors that only say that something else failed: the cause stands in the log above them.
_WRAPPER = re.compile(
    r"CalledProcessError|ChildFailedError|Process(Raised|Exited)Exception|SystemExit"
    r"|see (the )?(root cause|error|errors|log|logs|stack trace|traceback) (above|below)"
    r"|look up to see its traceback|(initialization|initialisation) failed|exit(ed with)? (status|code)"
    r"|subprocess-exited-with-error|failed-wheel-build-for-install|metadata-generation-failed"
    r"|Error compiling objects for extension|Caught \w{1,60} in (DataLoader worker|replica)",
    re.IGNORECASE,
)
#: What pip and the system say of an install that failed.
_FAILED_INSTALL = re.compile(
    r"No matching distribution found|Failed building wheel|No space left on device|Could not build wheels"
)


def plain(text: str) -> str:
    """Return a text without colors, and of a long one its beginning and its end.

    `text` is a log or a traceback, as pasted.

    >>> plain("\\x1b[0;31mValueError\\x1b[0m: no")
    'ValueError: no'
    """
    if len(text) > 2 * MAX_CHARACTERS:  # colors are looked for where anything is
        text = f"{text[: MAX_CHARACTERS // 2]}\n…\n{text[-3 * MAX_CHARACTERS // 2 :]}"
    text = _COLORS.sub("", text).replace("\r", "\n")
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[: MAX_CHARACTERS // 4]}\n…\n{text[-3 * MAX_CHARACTERS // 4 :]}"


def platform(text: str) -> str:
    """Return the platform that the paths in a text speak of; "" where they say nothing.

    `text` is a traceback or a log.

    >>> platform('File "/tmp/ipython-input-3.py", line 1')
    'colab'
    """
    if re.search(r"/kaggle/(input|working)|/opt/conda/lib/python3\.1\d/site-packages/kaggle", text):
        return "kaggle"
    if re.search(
        r'(?m)File "?/content/|^\[?/content/[^\n]{1,300}\.py(\]\(|:\d| in )|/tmp/ipython-input-'
        r"|ipython-input-\d{1,4}-[0-9a-f]{6}|/google/colab/|\]\(https://localhost:8080/#",
        text,
    ):
        return "colab"
    return ""


def raised(text: str) -> list[str]:
    """Return the messages of the exceptions that a text shows, the last one first; [] where it shows none.

    `text` is as `plain` returns it.

    >>> raised("loading\\nTraceback (most recent call last):\\n  ...\\nKeyError: 'x'")
    ["KeyError: 'x'"]
    """
    found: list[list[str]] = []
    inside = frames = False
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if _TRACEBACK in line:
            inside, frames = False, True
        elif _EXCEPTION.match(line) or (frames and _AFTER_FRAMES.match(line)):
            above = (
                lines[max(0, at - 2) : at] if "SyntaxError" in line else []
            )  # the code and a caret
            found.append([*above, line])
            inside, frames = True, False
        elif _BETWEEN.search(line) or _LOG.match(line):
            inside = False
        elif inside:
            found[-1].append(line)
    return ["\n".join(lines).strip() for lines in reversed(found)]


def is_wrapper_error(message: str, text: str = "") -> bool:
    """Say whether an exception tells only that something else failed before it.

    `message` is one of `raised`: of another program, of a worker; or of a module that is missing, where
    `text`, the whole log, shows that its install failed.

    >>> is_wrapper_error("subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1.")
    True
    """
    missing = message.startswith("ModuleNotFoundError") and bool(_FAILED_INSTALL.search(text))
    return missing or bool(_WRAPPER.search(message))
