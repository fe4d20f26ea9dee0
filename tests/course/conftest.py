"""A browser that looks at what the course makes."""

import shutil

import pytest

#: Milliseconds that a page may take: other jobs may hold both cores.
PATIENCE = 150_000


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, or whichever is on the path."""
    found = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if found is None:
        pytest.skip(
            "NOT TESTED IN A BROWSER: there is no Chromium here. On Debian: apt install chromium"
        )
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()
