"""A published trace is fetched once, checked, and never trusted; without it lessons go on."""

import gzip
import http.client
import io
import json
import urllib.error
import urllib.request
from unittest.mock import Mock

import pytest

from colab_lessons import recorded_outputs, trace_downloads

FILE = gzip.compress(json.dumps({"traceEvents": []}).encode())


@pytest.fixture
def served(monkeypatch, tmp_path):
    """Have one trace whose address answers with what the test puts there."""
    row = {"url": "https://example.org/t", "sha256": trace_downloads._hash(FILE), "source": "X"}
    monkeypatch.setattr(trace_downloads, "table", lambda: {"a_trace": row})
    monkeypatch.setattr(trace_downloads.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv(trace_downloads.FOLDER_VARIABLE, raising=False)
    return lambda opener: monkeypatch.setattr(urllib.request, "urlopen", opener)


def test_a_trace_is_fetched_once_and_again_when_it_is_spoiled(served):
    served(lambda url, timeout: io.BytesIO(FILE))
    path = trace_downloads.fetch("a_trace")
    assert path.read_bytes() == FILE and recorded_outputs.missing("# needs: a_trace") == ()
    path.write_bytes(FILE[:-1])
    assert trace_downloads.find("a_trace") is None
    assert trace_downloads.fetch("a_trace").read_bytes() == FILE
    served(None)
    assert trace_downloads.fetch("a_trace") == path


def test_what_is_not_the_file_is_not_used(served, capsys):
    for content in (FILE[: len(FILE) // 2], b"<html>another file</html>"):
        served(lambda url, timeout, content=content: io.BytesIO(content))
        assert trace_downloads.fetch("a_trace") is None
        assert "not the file the lesson" in capsys.readouterr().out
    assert recorded_outputs.missing("# needs: a_trace") == ("the file a_trace",)


def test_without_the_download_recorded_results_are_announced(served, capsys):
    broken_off = http.client.IncompleteRead(FILE[:9], 90)
    for error in (urllib.error.URLError("no route"), TimeoutError("too slow"), broken_off):
        served(Mock(side_effect=error))
        assert trace_downloads.fetch("a_trace") is None
        shown = capsys.readouterr().out
        assert str(getattr(error, "reason", error)) in shown and "Recorded results" in shown


def test_ones_own_folder_is_taken_as_it_is(served, monkeypatch, tmp_path):
    monkeypatch.setenv(trace_downloads.FOLDER_VARIABLE, str(tmp_path))
    assert trace_downloads.fetch("a_trace") is None
    (tmp_path / "a_trace.json.gz").write_bytes(b"mine")
    assert trace_downloads.fetch("a_trace").read_bytes() == b"mine"
