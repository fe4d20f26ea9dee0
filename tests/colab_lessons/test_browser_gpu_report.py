"""The line that the page about the reader's GPU gives."""

import zlib

import pytest

from colab_lessons import browser_gpu_report

BODY = (
    "my-gpu 1; apple metal-3; trip 0.0002; dispatch 0.000004; copy 89000000000; rows 80000000000; "
    "columns 15000000000; flops 1900000000000; matmuls 16:0.00021 2048:0.011"
)


def line(body=BODY):
    return f"{body}; {zlib.crc32(body.encode()):08x}"


@pytest.mark.parametrize("text", [line(), f'mine = "{line()}"', f"  {line()}\n", f"`{line()}`\r\n"])
def test_a_line_is_read_however_it_was_pasted(text):
    gpu = browser_gpu_report.read(text)
    assert (gpu.name, gpu.copy, gpu.matmuls) == ("apple metal-3", 89e9, {16: 0.00021, 2048: 0.011})


def test_a_name_may_have_quotes():
    assert browser_gpu_report.parse(line(BODY.replace("metal-3", '"m3"'))).name == 'apple "m3"'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("apple metal-3", "doesn't come from the page"),
        ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)", "doesn't come from the page"),
        (line(BODY.replace("my-gpu 1", "my-gpu 0")), "Measure once more"),
        (line()[:-1], "missing or changed"),
        (line().replace("89", "98"), "missing or changed"),
        ("my-gpu", "missing or changed"),
        (line("my-gpu 1"), "can't be read"),
        (line(BODY.replace("copy 89000000000; ", "")), "can't be read"),
        (line(BODY.replace("16:", "16=")), "can't be read"),
        (line(BODY.replace("0.0002;", "-1;")), "can't be right"),
        (line(BODY.replace("0.0002;", "nan;")), "can't be right"),
        (line(BODY + "; screen 1920"), "can't be right"),
        (line(BODY.replace("apple metal-3", "Google SwiftShader")), "program on a CPU"),
    ],
)
def test_a_line_that_cant_be_used_says_why_and_leaves_the_lesson_alone(text, why, capsys):
    assert browser_gpu_report.read(text) is None
    assert why in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", " \n"])
def test_no_line_is_no_gpu_and_no_words(text, capsys):
    assert browser_gpu_report.read(text) is None
    assert capsys.readouterr().out == ""
