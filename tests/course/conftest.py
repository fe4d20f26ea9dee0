"""A browser that looks at what the course makes."""

import shutil

import pytest

#: Milliseconds that a page may take: other jobs may hold both cores.
PAGE_TIMEOUT_MS = 150_000
#: The last two let pages compute through WebGPU, on SwiftShader.
FLAGS = ["--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]


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
        chromium = started.chromium.launch(executable_path=found, args=FLAGS)
        yield chromium
        chromium.close()
