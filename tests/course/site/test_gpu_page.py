"""The page that measures the reader's GPU, on the one that Chromium's SwiftShader imitates."""

import re

import pytest

from colab_lessons import browser_gpu_report
from tests.course.accessible import violations
from tests.course.site.test_browser import PHONE, opened

#: The page refuses software, so here it calls itself hardware.
NAMED = """Object.defineProperty(GPUAdapter.prototype, "info", {
    get: () => ({ vendor: "acme", architecture: "test-1", device: "", description: "" }) });"""
GIVEN_UP = "document.querySelector('#gpu-said').children.length > 0"
#: A small GPU in `gpu`, from the page's own code; {wgsl} changes the kernels.
START = """
    const {{ checkedMatmul, measure, open }} = await import("./_static/measure_gpu.js");
    const wgsl = (await (await fetch("./_static/gpu.wgsl")).text()){wgsl};
    const gpu = await open(wgsl);
"""


ATTEMPT = "return measure(gpu, 2 ** 16).then(() => 'measured', (error) => error.message);"


def on_page(page, code, wgsl=""):
    return page.evaluate(f"async () => {{ {START.format(wgsl=wgsl)} {code} }}")


@pytest.fixture
def with_console(address, browser):
    """The page, and what its console says."""
    page, wrong = opened(browser)
    page.add_init_script(NAMED)
    page.goto(f"{address}gpu.html")
    if not page.evaluate("navigator.gpu?.requestAdapter().then(Boolean)"):
        pytest.skip("NOT TESTED: the page about the reader's GPU; this Chromium has no SwiftShader")
    yield page, wrong
    page.context.close()


@pytest.fixture
def gpu_page(with_console):
    page, wrong = with_console
    yield page
    assert wrong == []


def measured(page):
    page.get_by_role("button", name="Measure my GPU").click()
    page.wait_for_function(GIVEN_UP)
    return page.locator("#gpu-said").inner_text()


def test_every_matmul_is_right_also_where_no_tile_divides(gpu_page):
    each = "for (const n of [1, 5, 63, 64, 65, 130]) off.push(await checkedMatmul(gpu, n));"
    assert max(on_page(gpu_page, f"gpu.fill(2 ** 16); const off = []; {each} return off;")) < 1e-5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('.replace("s3 += left.w * right", "s3 += left.w * right * 1.001")', "A matmul of 67 × 67"),
        ('.replace("out[i] = a[i]", "out[i] = a[i] + 1")', "The copy isn't the original"),
        ('.replace("a[(i / size.z) *", "2 * a[(i / size.z) *")', "The sums along rows"),
        ('.replace("(i % size.y) * size.z + i / size.y", "i")', "The sums along columns"),
    ],
)
def test_a_wrong_result_is_no_measurement(gpu_page, change, words):
    assert on_page(gpu_page, ATTEMPT, change).startswith(words)


def test_a_kernel_that_is_refused_says_so(with_console):
    page, wrong = with_console
    assert "The GPU's driver refused" in on_page(page, ATTEMPT, '.replace("fn tiny()", "fn tiny(")')
    assert "parsing WGSL" in wrong[0]  # the browser's own words


def test_it_says_what_it_found_and_hands_it_to_the_lessons(gpu_page):
    said = measured(gpu_page)
    for words in ("On your GPU (acme test-1)", "you have the ridge", "Any call takes at least"):
        assert words in said
    line = gpu_page.get_by_label(re.compile("Your line")).input_value()
    gpu = browser_gpu_report.parse(line)
    assert gpu.name == "acme test-1" and min(gpu.matmuls) == 16
    assert "Mozilla" not in line and "Chrom" not in line
    for link in gpu_page.locator("#gpu-said a").evaluate_all("all => all.map((one) => one.href)"):
        assert gpu_page.request.get(link).ok, link
    charts = gpu_page.get_by_role("img").evaluate_all("all => all.map((one) => one.ariaLabel)")
    assert any(
        "your GPU, through the browser:" in alt and "a T4 through CUDA, estimated:" in alt
        for alt in charts
    )
    assert violations(gpu_page, ["dark"]) == []
    gpu_page.set_viewport_size(PHONE)
    assert gpu_page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


LOST = """Object.defineProperty(GPUDevice.prototype, "lost", { get: () =>
    Promise.resolve({ reason: "unknown", message: "driver reset" }) });"""
HIDDEN = 'Object.defineProperty(document, "hidden", { get: () => true });'
NO_CLOCK = """Object.defineProperty(GPUAdapter.prototype, "features", {
    get: () => new Set() });"""


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ('Object.defineProperty(navigator, "gpu", { value: undefined });', "has no WebGPU"),
        ("GPU.prototype.requestAdapter = async () => null;", "offers no GPU"),
        ("", "a program on the CPU stands in for a GPU"),
        (NAMED + LOST, "lost the GPU while it was measured (“driver reset”)"),
        (NAMED + HIDDEN, "in the background"),
        (NAMED + NO_CLOCK, "Timed by the browser's clock, which ticks every"),
    ],
    ids=["no WebGPU", "no adapter", "software", "lost", "hidden", "no clock"],
)
def test_each_failure_gets_a_sentence(address, browser, script, words):
    page, wrong = opened(browser)
    page.add_init_script(script)
    page.goto(f"{address}gpu.html")
    assert words in measured(page)
    assert page.get_by_role("button", name="Measure again").is_enabled()
    page.context.close()
    assert wrong == []
