"""How results leave a cell: for people, and as data for reports and tests."""

from __future__ import annotations

import html

#: MIME type under which lessons hand their checks and measurements to machines.
RECORD_MIME = "application/vnd.colab-helpers.record+json"
#: Severity of a finding -> color of its edge.
_EDGE = {"stop": "#d55e00", "warn": "#e69f00", "note": "#0b7a5e"}


def bundle(text: str, html: str, data: dict) -> dict:
    """Return one output in three forms: plain text, HTML, and data.

    >>> sorted(bundle("a", "<b>a</b>", {}))
    ['application/vnd.colab-helpers.record+json', 'text/html', 'text/plain']
    """
    return {"text/plain": text, "text/html": html, RECORD_MIME: data}


def edged(inside: str, severity: str) -> str:
    """Return HTML with a colored edge at its left; `inside` is HTML, `severity` "stop", "warn" or "note".

    No color of text or page is set: both come from the theme around it.

    >>> edged("a", "note").endswith("solid #0b7a5e'>a</div>")
    True
    """
    style = f"margin:0.5em 0;padding:0.4em 0.8em;border-left:0.3em solid {_EDGE[severity]}"
    return f"<div style='{style}'>{inside}</div>"


def error_text(error: BaseException) -> str:
    """Return an error as its name and its text; its name alone where it has no text, or that fails.

    >>> error_text(IndexError("list index out of range")), error_text(ValueError())
    ('IndexError: list index out of range', 'ValueError')
    """
    try:
        text = str(error).strip()
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def with_code(text: str) -> str:
    """Return text as HTML: escaped, with the parts in backticks set as code.

    >>> with_code("`a < b`")
    '<code>a &lt; b</code>'
    """
    parts = html.escape(text, quote=False).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))
