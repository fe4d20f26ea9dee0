"""What the table says of errors that were met, of others that a library raises, and of unrelated ones.

errors.json holds what programs printed in public threads, each with its thread: the message, and at most two
frames of libraries. made.json has texts of problems, patterns or cases that no thread in it shows. Of each
problem there are as many as show each of its patterns.
"""

import collections
import json
import re
from pathlib import Path

import pytest

import colab_doctor
from colab_doctor import pasted_log

HERE = Path(__file__).parent
PROBLEMS = colab_doctor.known_problems()


def rows(name):
    found = json.loads((HERE / f"{name}.json").read_text("utf-8"))
    return [(row["text"], row.get("platform") or "colab", row["explained_as"]) for row in found]


MET = [*rows("errors"), *rows("made")]
BY_PROBLEM = collections.defaultdict(list)
for text, platform, id in MET:
    BY_PROBLEM[id].append((text, platform))


@pytest.mark.parametrize("id", sorted(BY_PROBLEM))
def test_errors_are_explained_as_they_were(id):
    for text, platform in BY_PROBLEM[id]:
        assert colab_doctor.explain_error(text, platform).id == id, text


def test_every_problem_with_a_pattern_has_a_text():
    assert {row.id for row in PROBLEMS.values() if row.errors} - set(BY_PROBLEM) == set()


def test_every_case_is_shown_by_a_text():
    shown = set()
    for text, platform, id in MET:
        if id and PROBLEMS[id].cases:
            shown |= {
                (id, one.observation)
                for one in colab_doctor.explain_error(text, platform).diagnoses
            }
    cases = {(row.id, case.meaning) for row in PROBLEMS.values() for case in row.cases}
    assert len(cases - shown) <= len(cases) // 20, cases - shown


def test_errors_of_other_programs_are_left_alone():
    assert len(BY_PROBLEM[""]) >= 60


def test_the_texts_are_what_programs_printed_and_name_nobody():
    """Message and at most two library frames: no cell of anybody's, no home folder, no registry."""
    for text, _, _ in rows("errors"):
        assert len(text) <= 2000
        assert not re.search(r"(?m)^\s*(In \[|>>> |-{2,}> ?\d|Cell In)", text), text
        assert not re.search(r"(?i)pypi\.org|pythonhosted|npmjs|conda\.anaconda", text), text
        homes = re.findall(r"(?i)(?:/home/|(?<![\w.])/Users/|Users\\{1,2})([^/\\\s\"'>:]+)", text)
        assert {home.lower() for home in homes} <= {"user", "jupyter", "runner"}, text
        frames = re.findall(r'(?m)^\s*File "[^"]*(?:site|dist)-packages', text)
        assert len(frames) <= 2, text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ValueError: shapes do not match",
        "Unable to load libtpu",
        "429 RESOURCE_EXHAUSTED. You exceeded your current quota",  # a service, not a chip
        "java.lang.OutOfMemoryError: Java heap space",
        "IndexError: list index out of range",
        "TypeError: Dataset.load() takes 1 positional argument but 2 were given",
        "TypeError: MyModel.__init__() got an unexpected keyword argument 'hidden'",
        "TypeError: concatenate() got an unexpected keyword argument 'dtype'",
        "AttributeError: 'LRUCache' object has no attribute 'foo'",
        "ValueError: unknown optimizer foo",
        "Drive share link is not accessible",
    ],
)
def test_words_that_a_library_shares_with_others_are_no_alarm(text):
    explained = colab_doctor.explain_error(text, "colab")
    assert not explained and "not in the table" in str(explained)
    assert "related" not in str(explained)


@pytest.mark.parametrize(
    ("text", "id", "fix"),
    [
        ("ModuleNotFoundError: No module named 'pkg_resources'", "old-pin", "setuptools<81"),
        ("ModuleNotFoundError: No module named 'bitsandbytes'", "package-missing", "bitsandbytes"),
        ("ModuleNotFoundError: No module named 'torch_xla'", "torch-xla-missing", "torch_xla[tpu]"),
        (
            "ModuleNotFoundError: No module named 'imp'",
            "python-names",
            "Leave Colab's IPython alone",
        ),
        (
            "AttributeError: module 'tensorflow' has no attribute 'estimator'",
            "tensorflow-1",
            "Keras",
        ),
    ],
)
def test_rows_that_were_wrong(text, id, fix):
    explained = colab_doctor.explain_error(text, "colab")
    assert explained.id == id and fix in explained.fix


def test_both_sizes_of_a_product_stand_on_the_card():
    text = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x784 and 100x10)"
    assert "784 columns, the second 100 rows" in colab_doctor.explain_error(text).meaning
    flattened = text.replace("64x784 and 100", "64x28 and 784")
    assert "784 = 1 × 28 × 28: flatten" in colab_doctor.explain_error(flattened).meaning
    flat_already = text.replace("64x784 and 100", "64x784 and 28")
    assert "flatten" not in colab_doctor.explain_error(flat_already).meaning


def test_any_other_problem_goes_before_a_general_one():
    text = "ModuleNotFoundError: No module named 'x'\nRuntimeError: CUDA out of memory"
    explained = colab_doctor.explain_error(text, "colab")
    assert (explained.id, explained.also) == ("out-of-memory", None)


def test_what_was_raised_counts_before_the_log_around_it():
    before = "E cuda_dnn.cc:9342] Unable to register cuDNN factory\nFound no NVIDIA driver on your system\n"
    frames = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    d["a"]\n'
    assert not colab_doctor.explain_error(f"{before}{frames}KeyError: 'a'", "colab")
    known = colab_doctor.explain_error(
        f"{before}{frames}RuntimeError: CUDA error: out of memory", "colab"
    )
    assert known.id == "out-of-memory"


def test_the_last_of_several_raised_errors_is_first_and_another_one_is_named():
    text = (
        "Traceback (most recent call last):\nOSError: [Errno 28] No space left on device\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB"
    )
    explained = colab_doctor.explain_error(text, "colab")
    assert (explained.id, explained.also.id) == ("out-of-memory", "little-disk")
    assert "Also: " in str(explained) and "little-disk" in explained._html()
    assert "Fix: " in str(explained) and "<b>Fix:</b>" in explained._html()


def test_what_hides_behind_an_error_comes_first_where_the_log_shows_it():
    text = (
        "block: [4,0,0], thread: [97,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
    )
    explained = colab_doctor.explain_error(text, "colab")
    assert (explained.id, explained.also.id) == ("device-assert", "cublas-failed")


def test_a_wrapper_lets_the_log_speak():
    text = (
        "No space left on device\nsubprocess.CalledProcessError: returned non-zero exit status 1."
    )
    assert colab_doctor.explain_error(text, "colab").id == "little-disk"


def test_an_exception_is_explained_with_those_that_led_to_it():
    try:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise RuntimeError("the checkpoint was not written") from error
    except RuntimeError as error:
        assert colab_doctor.explain_error(error, "colab").id == "little-disk"


def test_a_group_of_exceptions_is_explained_by_the_first_that_is_known():
    inner = ExceptionGroup("g", [RuntimeError("CUDA error: out of memory")])
    group = ExceptionGroup("outer", [ValueError("no"), inner])
    assert colab_doctor.explain_error(group).id == "out-of-memory"
    assert not colab_doctor.explain_error(ExceptionGroup("g", [ValueError("no")]))


def test_cases_see_the_functions_in_which_an_exception_was_raised():
    def backward():
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with pytest.raises(RuntimeError) as caught:
        backward()
    assert "in the backward pass" in colab_doctor.explain_error(caught.value, "colab").meaning
    assert "backward" not in colab_doctor.explain_error(str(caught.value), "colab").meaning


def test_the_paths_in_a_text_say_where_it_was_raised():
    text = "Traceback (most recent call last):\n  File {}\nRuntimeError: CUDA out of memory"
    assert "Runtime > Restart" in colab_doctor.explain_error(text.format('"/content/t.py"')).fix
    assert "Runtime >" not in colab_doctor.explain_error(text.format('"/kaggle/working/x"')).fix
    assert pasted_log.platform('File "/home/joe/blog/content/build.py"') == ""
    assert pasted_log.platform("Running on http://localhost:8080") == ""


def test_colors_are_taken_out_and_long_texts_cut():
    assert pasted_log.plain("\x1b[31mRuntimeError\x1b[39m: no") == "RuntimeError: no"
    assert len(pasted_log.plain("\x1b[0m" * 400_000)) <= 70_000


@pytest.mark.parametrize("edge", ["", "│ ", "> "])
def test_numbers_of_a_message_that_was_wrapped_are_read(edge):
    said = (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 40.00 MiB (GPU 0; 15.77\n"
        "GiB total capacity; 9.10 GiB already allocated; 12.00 MiB free;\n"
        "14.90 GiB reserved in total by PyTorch)"
    )
    found = colab_doctor.explain_error(said.replace("\n", f" \n{edge}"))
    assert found.id == "out-of-memory" and "5.8 GiB unused" in found.meaning


def test_of_two_errors_the_numbers_of_the_last_one_count():
    said = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of "
        "14.74 GiB of which {} is free. Of the allocated memory {} is allocated by PyTorch, and 10.00 MiB is "
        "reserved by PyTorch but unallocated."
    )
    again = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
    first, last = ("40.00 GiB", "10.00 GiB", "4.00 GiB"), ("20.00 MiB", "10.00 MiB", "14.00 GiB")
    log = said.format(*first) + again + "Traceback (most recent call last):\n" + said.format(*last)
    assert "14.0 GiB" in colab_doctor.explain_error(log, "colab").meaning


def test_tensorflow_alone_is_not_told_of_jax():
    text = (
        "tf.data.Dataset\nResourceExhaustedError: Out of memory while trying to allocate 96 bytes."
    )
    assert "JAX" not in colab_doctor.explain_error(text, "colab").meaning
