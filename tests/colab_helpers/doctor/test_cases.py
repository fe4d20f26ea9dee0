"""The causes of a known problem that the text of an error gives away."""

import re

import pytest

from colab_helpers import doctor
from tests.colab_helpers.doctor import test_doctor, test_errors

PROBLEMS = doctor.known_problems()
CASES = [(problem, case) for problem in PROBLEMS.values() for case in problem.cases]
#: Texts for cases that no other collection of the tests has.
TEXTS = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: "
    "out of memory",
    *(
        f"Traceback (most recent call last):\n  {frame}\ntorch.OutOfMemoryError: CUDA out of memory."
        for frame in (
            'File "adamw.py", line 9, in _init_group',
            'File "modeling_utils.py", line 9, in from_pretrained',
            'File "trainer.py", line 9, in evaluation_loop',
        )
    ),
    'Traceback (most recent call last):\n  File "adamw.py", line 9, in _single_tensor_adamw\nRuntimeError: '
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    "Loss.cu:94: operator(): block: [0,0,0], thread: [32,0,0] Assertion `input_val >= zero && input_val "
    "<= one` failed.\nRuntimeError: CUDA error: device-side assert triggered",
    "/bin/bash: line 1: huggingface-cli: command not found",
    "RuntimeError: DataLoader worker (pid 4711) exited unexpectedly\nmalloc failed",
    "HfHubHTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/api/whoami-v2 "
    "Invalid user token.",
    "TypeError: Error when deserializing class 'Dense'. Unrecognized keyword arguments passed to Dense: "
    "{'quantization_config': None}",
    "_pickle.UnpicklingError: Weights only load failed. Unsupported operand 149",
    "llama_model_load: error loading model: unknown model architecture: 'gemma9'\n"
    "ValueError: Failed to load model from file: /content/model.gguf",
    "AttributeError: module 'numpy' has no attribute 'bool8'. Did you mean: 'bool'?",
    "Could not load library libcudnn_cnn_infer.so.8. Error: libcuda.so: cannot open shared object file: "
    "No such file or directory",
    "RuntimeError: Error(s) in loading state_dict for OptimizedModule:\n\tMissing key(s) in state_dict: "
    '"_orig_mod.weight", "_orig_mod.bias".',
)


def shown(text):
    explained = doctor.explain_error(text, "colab")
    return {(clue.id, clue.seen) for clue in explained.clues} if explained else set()


def test_every_case_is_shown_by_a_text():
    rows = [*test_errors.ERRORS, *test_errors.UNRELATED]
    told = [row["error"] for row in (*test_errors.IN_SESSIONS, *test_errors.RAISED)]
    words = [
        word for one in test_errors.VOCABULARIES if one.get("a_choice") for word in one["told"]
    ]
    texts = [*TEXTS, *test_errors.MORE, *test_doctor.ERRORS, *told, *words]
    texts += [row["text"] for row in rows]
    met = set().union(*map(shown, texts))
    assert {(problem.id, case.seen) for problem, case in CASES} - met == set()


@pytest.mark.parametrize(("problem", "case"), CASES, ids=lambda each: getattr(each, "id", ""))
def test_a_case_is_written_as_the_table_is(problem, case):
    assert not re.search(r"(?<!\\)[*+]|\{\d*,\}", case.shows) and case.shows == case.shows.lower()
    assert case.seen.endswith((".", ":")) and case.remedy != problem.remedy


def test_the_first_case_that_is_shown_is_told_above_what_is_so_in_general():
    explained = doctor.explain_error("UnpicklingError: invalid load key, '<'.", "colab")
    assert len(explained.clues) == 1 and explained.id == "not-the-file"
    said = str(explained)
    assert said.index("a web page was saved") < said.index(PROBLEMS["not-the-file"].remedy)
    assert doctor.explain_error("UnpicklingError: invalid load key, 'x'.", "colab").clues == ()


def test_cases_see_the_functions_in_which_an_exception_was_raised():
    def backward():
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with pytest.raises(RuntimeError) as caught:
        backward()
    seen = [clue.seen for clue in doctor.explain_error(caught.value, "colab").clues]
    assert "It happened in the backward pass, which keeps what every layer computed." in seen
    assert not any("backward" in seen for _, seen in shown(str(caught.value)))


def test_what_colab_calls_a_restart_is_said_for_other_notebooks():
    text = "ImportError: Loading a GPTQ quantized model requires optimum (`pip install optimum`)"
    remedy = doctor.explain_error(text, "local").clues[0].remedy
    assert "then restart the kernel." in remedy and "Runtime" not in remedy
