"""Real errors of other people, from public threads: what the table says of each, and of unrelated ones.

errors.json has them with their thread, cause and way out. Sets a to r were collected one after the
other; b to r were judged by somebody who had not written a pattern, before any was written for them
(`judged_first`). Those of sets i to r follow the programs' own messages, with other paths and numbers
than in their threads. What is told of each now must not change unseen.
"""

import collections
import json
import re
import time
import tomllib
from pathlib import Path

import pytest

from colab_helpers import doctor
from colab_helpers.doctor import raised

HERE = Path(__file__).parent
ERRORS = json.loads((HERE / "errors.json").read_text("utf-8"))
#: Errors that somebody made in cells who had not seen the rules, judged by another at the first run.
IN_SESSIONS = json.loads((HERE / "sessions.json").read_text("utf-8"))
#: What the given code raises with the libraries of 2026-11: PyTorch 2.13, Keras 3.15, JAX 0.10 and others.
RAISED = json.loads((HERE / "raised.json").read_text("utf-8"))
UNRELATED = json.loads((HERE / "unrelated.json").read_text("utf-8"))
PROBLEMS = doctor.known_problems()
#: Groups of problems that are mistakes in one's own code.
OF_CODE = (
    "Code", "Training code", "Keras and TensorFlow code", "JAX code", "Hugging Face code",
    "Data, arrays and tables",
)  # fmt: skip
#: Problems outside these groups that any program can have, and that are true of it too.
OF_ANY_PROGRAM = ("permission-denied", "url-refused", "no-microphone")
#: What CUDA, the driver, Linux, HTTP and pip can say, list by list.
VOCABULARIES = tomllib.loads((HERE / "vocabularies.toml").read_text("utf-8"))["list"]
#: Texts of problems that no collection of real errors has, and of causes.
TEXTS = tomllib.loads((HERE / "texts.toml").read_text("utf-8"))["text"]
#: Texts for problems that no thread of the collection has; from the libraries named.
MORE = {
    "Unable to initialize backend 'rocm': NOT_FOUND: Could not find registered platform with name: "
    '"rocm". Available platform names are: CUDA Interpreter Host': "xla-probing",  # jax 0.3
    "UserWarning: Explicitly requested dtype float64 requested in zeros is not available, and will be "
    "truncated to dtype float32. To enable more dtypes, set the jax_enable_x64 configuration option or "
    "the JAX_ENABLE_X64 shell environment variable.": "jax-x64",
    "torch._dynamo.exc.Unsupported: Unsupported context manager": "compile-failed",
    "ModuleNotFoundError: No module named 'keras.layers.core'": "keras-2-code",
    "TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'":
    "renamed-argument",
    "ModuleNotFoundError: No module named 'imp'": "python-names",
    "ModuleNotFoundError: No module named 'flash_attn'": "flash-attn-missing",
    "ValueError: Unknown variable: <Variable path=dense/kernel>. This optimizer can only be called for "
    "the variables it was originally built with.": "one-optimizer-two-models",
    "IndexError: Target 9 is out of bounds.": "label-range",
    "RuntimeError: DataLoader worker (pid(s) 1423) exited unexpectedly": "dataloader-worker",
    "huggingface/tokenizers: The current process just got forked, after parallelism has already been "
    "used. Disabling parallelism to avoid deadlocks...": "tokenizers-fork",
    "The available devices are different from the devices used to save the checkpoint.  Please restore "
    "checkpoint by passing new shardings for target devices.": "sharded-restore",
    "Exception: Could not deserialize ATN with version (expected 4).": "antlr",
    "FileNotFoundError: Couldn't find any data file at /content/qa.csv.": "dataset-file",
    "AlbertTokenizer requires `tensorflow` and `tensorflow-text` for text processing.": "tensorflow-text",
    "gguf_init_from_file_impl: invalid magic characters: 'vers', expected 'GGUF'": "ggml-format",
    "RuntimeError: module compiled against ABI version 0x1000009 but this version of numpy is 0x2000000":
    "numpy-abi",
    'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":995, '
    "please report a bug to PyTorch.": "nvml-assert",
    "Failed to initialize NVML: Unknown Error": "container-lost-gpu",
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before "
    "calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized":
    "fabric-manager",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered": "gpu-ecc",
    "RuntimeError: CUDA error: the launch timed out and was terminated": "launch-timeout",
    "RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)": "gpu-newer-than-cuda",
    "RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR": "gpu-newer-than-cuda",
    "jaxlib/cusolver.cc:51: operation cusolverDnCreate(&handle) failed: cuSolver internal error":
    "cusolver",
    "error: function cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY) failed with error "
    "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES": "profiler-permission",
    "UserWarning: Specified provider 'CUDAExecutionProvider' is not in available provider names."
    "Available providers: 'AzureExecutionProvider, CPUExecutionProvider'": "onnxruntime-cpu",
    "lightgbm.basic.LightGBMError: No OpenCL device found": "lightgbm-gpu",
    "RuntimeError: value cannot be converted to type at::Half without overflow: -1e+09": "half-overflow",
    "RuntimeError: \"triu_tril_cuda_template\" not implemented for 'BFloat16'": "bf16-kernel-missing",
    "ValueError: Requested float16 compute type, but the target device or backend do not support efficient "
    "float16 computation.": "ctranslate2-float16",
    "ValueError: Unknown quantization type, got fp8 - supported types are: ['awq', 'bitsandbytes_4bit']":
    "quantization-unknown",
    "RuntimeError: Inference tensors cannot be saved for backward. To work around you can make a clone to "
    "get a normal tensor and use it in autograd.": "inference-tensors",
    "RuntimeError: Dynamo is not supported on Python 3.12+": "dynamo-python",
    "LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.shfl.sync.bfly.i32": "triton-llvm",
    "RuntimeError: 0 active drivers ([]). There should only be one.": "triton-no-gpu",
    "RuntimeError: cutlassF: no kernel found to launch!": "cutlass-kernel",
    "numba.cuda.cudadrv.error.NvvmSupportError: libNVVM cannot be found. Do `conda install cudatoolkit`:":
    "nvvm-missing",
    "ImportError: /opt/conda/lib/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by x.so)":
    "glibcxx",
    "OMP: Error #15: Initializing libiomp5md.dll, but found libiomp5md.dll already initialized.":
    "openmp-twice",
    'OSError: [WinError 126] The specified module could not be found. Error loading "C:\\venv\\lib\\'
    'site-packages\\torch\\lib\\fbgemm.dll" or one of its dependencies.': "windows-torch-dll",
    "Exception: data did not match any variant of untagged enum ModelWrapper at line 1251012 column 3":
    "tokenizer-file",
    "LlamaTokenizer requires the SentencePiece library but it was not found in your environment.":
    "sentencepiece",
    "TypeError: Client.__init__() got an unexpected keyword argument 'proxies'": "httpx-proxies",
    "pydantic.errors.PydanticImportError: `BaseSettings` has been moved to the `pydantic-settings` package.":
    "pydantic-2",
    "TypeError: unsupported operand type(s) for |: 'type' and 'NoneType'": "newer-python-syntax",
    "ValueError: Only instances of `keras.Layer` can be added to a Sequential model. Received: "
    "<tensorflow_hub.keras_layer.KerasLayer object at 0x75776b09fc10>": "hub-layer-keras-3",
    "AttributeError: 'KerasHistory' object has no attribute 'layer'": "two-kerases",
    "AttributeError: module 'cv2.dnn' has no attribute 'DictValue'": "opencv-twice",
    "error: externally-managed-environment": "system-python",
    "AttributeError: '_SingleProcessDataLoaderIter' object has no attribute 'next'": "loader-next",
    "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to "
    "connect to (172.17.0.9, 46229).": "rendezvous-timeout",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:": "child-failed",
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}":
    "vllm-engine",
    "RuntimeError: use_libuv was requested but PyTorch was build without libuv support": "libuv",
    "RuntimeError: No backend type associated with device type cpu": "gloo-for-cpu",
    "OSError: [Errno 95] Operation not supported: '/content/drive/My Drive/a' -> './b'": "drive-no-links",
    "pandas._config.config.OptionError: \"No such keys(s): 'mode.use_inf_as_null'\"": "pandas-options",
    "AttributeError: module 'lib' has no attribute 'X509_V_FLAG_NOTIFY_POLICY'": "pyopenssl",
    "AttributeError: module 'random' has no attribute 'seed' (consider renaming '/content/random.py' since "
    "it has the same name as the standard library module named 'random' and the import system gives it "
    "precedence)": "broken-install",
    "ValueError: File not found: filepath=a.keras. Please ensure the file is an accessible `.keras` file.":
    "no-such-file",
    "ValueError: setting an array element with a sequence. The requested array has an inhomogeneous shape "
    "after 1 dimensions. The detected shape was (2,) + inhomogeneous part.": "ragged-array",
    "ImportError: lxml.html.clean module is now a separate project lxml_html_clean.": "lxml-clean",
    "BlockingIOError: [Errno 11] Unable to synchronously open file (unable to lock file, errno = 11, "
    "error message = 'Resource temporarily unavailable')": "hdf5-lock",
    "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent "
    "run. Stack trace: File \"/content/model.py\", line 12, in forward": "cuda-graph-overwritten",
    "ValueError: Input length of input_ids is 25, but `max_length` is set to 20. This can lead to unexpected "
    "behavior. You should consider increasing `max_length`": "input-too-long",
    "ValueError: Can't find 'adapter_config.json' at 'out/merged'": "adapter-not-found",
    "ImportError: IProgress not found. Please update jupyter and ipywidgets.": "iprogress",
}  # fmt: skip


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row["id"])
def test_a_real_error_is_explained_as_it_was(row):
    explained = doctor.explain_error(row["text"], row["platform"])
    assert explained.id == row["explained_as"], row["cause"]
    if explained:
        assert explained.finding.remedy in str(explained) and explained.finding.link in str(
            explained
        )
    else:
        assert "not in the table" in str(explained)


@pytest.mark.parametrize("text", MORE, ids=MORE.get)
def test_more_errors_are_explained(text):
    assert doctor.explain_error(text, "colab").id == MORE[text]


@pytest.mark.parametrize("row", TEXTS, ids=lambda row: row["problem"])
def test_a_text_is_told_as_its_problem(row):
    assert doctor.explain_error(row["text"], "colab").id == row["problem"]


@pytest.mark.parametrize("words", VOCABULARIES, ids=lambda words: words["name"])
def test_all_words_of_a_layer_below_are_explained(words):
    for word, id in words["told"].items():
        told = doctor.explain_error(words["printed"].replace("{}", word), "colab").id
        assert told == id, word
    known = [id for id in words["told"].values() if id]
    assert len(known) >= 0.75 * len(words["told"])


@pytest.mark.parametrize("row", UNRELATED, ids=lambda row: row["id"])
def test_an_unrelated_error_is_left_alone_or_told_as_the_mistake_it_is(row):
    """Nearly half of them are mistakes in code that learners write, which have rows of their own now."""
    id = doctor.explain_error(row["text"], "colab").id
    assert id == row["explained_as"], row["cause"]
    assert not id or PROBLEMS[id].group in OF_CODE or id in OF_ANY_PROGRAM


def test_errors_of_other_programs_are_left_alone():
    assert sum(not row["explained_as"] for row in UNRELATED) >= 49


@pytest.mark.parametrize("row", RAISED, ids=lambda row: row["explained_as"])
def test_what_a_library_says_today_is_explained(row):
    assert doctor.explain_error(row["error"], "colab").id == row["explained_as"], row["code"]


@pytest.mark.parametrize("row", IN_SESSIONS, ids=lambda row: row["id"])
def test_an_error_of_a_cell_is_explained_by_its_text_too(row):
    assert doctor.explain_error(row["error"], "colab").id == row["explained_as"], row["cause"]


@pytest.mark.parametrize(
    "text",
    [
        "TypeError: Dataset.load() takes 1 positional argument but 2 were given",
        "TypeError: download() takes 1 positional argument but 2 were given",
        "TypeError: MyModel.__init__() got an unexpected keyword argument 'hidden'",
        "TypeError: ExperimentConfig.__init__() got an unexpected keyword argument 'x'",
        "TypeError: concatenate() got an unexpected keyword argument 'dtype'",
        "AttributeError: 'LRUCache' object has no attribute 'foo'",
        "ValueError: unknown optimizer foo",
        "Drive share link is not accessible",
    ],
)
def test_words_that_a_library_shares_with_others_are_no_alarm(text):
    assert not doctor.explain_error(text, "colab")


def test_the_collection_is_what_it_says():
    assert len(ERRORS) >= 250 and len(UNRELATED) == 100
    for row in ERRORS:
        composed = row["set"] in "jklmnopqr" and row["confirmed"] == "none"
        assert row["thread"] or composed, row["id"]
        assert row["cause"] and row["way_out"] and len(row["text"]) <= 2000
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+|https://\S+|", row["thread"])
    verdicts = collections.Counter((row["set"], row["judged_first"]) for row in ERRORS)
    assert {name for name, _ in verdicts} == set("abcdefghijklmnopqr")
    assert {verdict for _, verdict in verdicts} == {"right", "partly", "wrong", "silent"}


def test_every_problem_with_a_pattern_has_a_text(request):
    from tests.colab_helpers.doctor import test_doctor

    told = {row["explained_as"] for row in ERRORS} | {*MORE.values(), *test_doctor.ERRORS.values()}
    told |= {doctor.explain_error(row["text"], "colab").also.id for row in ERRORS if _also(row)}
    told |= {row["explained_as"] for row in (*IN_SESSIONS, *RAISED)}
    told |= {id for words in VOCABULARIES for id in words["told"].values()}
    told |= {row["problem"] for row in TEXTS}
    assert {problem.id for problem in PROBLEMS.values() if problem.errors} - told == set()


def _also(row):
    return doctor.explain_error(row["text"], "colab").also


def test_a_problem_gives_way_to_known_ones_and_never_in_a_circle():
    for problem in PROBLEMS.values():
        if problem.is_general:
            continue
        assert set(problem.yields_to) <= set(PROBLEMS), problem.id
        for other in problem.yields_to:
            assert problem.id not in PROBLEMS[other].yields_to, (problem.id, other)


def test_any_other_problem_goes_before_a_general_one():
    refused = "ConnectionRefusedError: [Errno 111] Connection refused"
    assert doctor.explain_error(refused, "colab").id == "connection-refused"
    log = f"{refused}\nMax retries exceeded with url: https://huggingface.co/x: timed out"
    explained = doctor.explain_error(log, "colab")
    assert (explained.id, explained.also) == ("no-network", None)
    both = doctor.explain_error(f"{refused}\nBrokenPipeError: [Errno 32] Broken pipe", "colab")
    assert {both.id, both.also.id} == {"connection-refused", "broken-pipe"}


def test_what_was_raised_counts_before_the_log_around_it():
    log = "E cuda_dnn.cc:9342] Unable to register cuDNN factory\nFound no NVIDIA driver on your system\n"
    frames = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    d["a"]\n'
    assert not doctor.explain_error(f"{log}{frames}KeyError: 'a'", "colab")
    known = doctor.explain_error(f"{log}{frames}RuntimeError: CUDA error: out of memory", "colab")
    assert known.id == "out-of-memory"


def test_the_last_of_several_raised_errors_is_first_and_another_one_is_second():
    text = (
        "Traceback (most recent call last):\nOSError: [Errno 28] No space left on device\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB"
    )
    explained = doctor.explain_error(text, "colab")
    assert (explained.id, explained.also.id) == ("out-of-memory", "little-disk")
    assert "a second problem" in str(explained) and "<b>Also:</b>" in explained._html()
    assert "What to do: " in str(explained) and "<b>What to do:</b>" in explained._html()


def test_what_hides_behind_an_error_comes_first_where_the_log_shows_it():
    log = "block: [4,0,0], thread: [97,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
    text = (
        log
        + "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
    )
    explained = doctor.explain_error(text, "colab")
    assert (explained.id, explained.also.id) == ("device-assert", "cublas-failed")
    for problem in PROBLEMS.values():
        assert set(problem.in_log) <= set(PROBLEMS), problem.id


def test_a_wrapper_lets_the_log_speak():
    text = (
        "No space left on device\nsubprocess.CalledProcessError: returned non-zero exit status 1."
    )
    assert doctor.explain_error(text, "colab").id == "little-disk"


def test_an_unknown_error_gets_near_titles_and_how_to_ask_and_no_way_out():
    explained = doctor.explain_error(
        "ValueError: the TPU driver has no shared memory for a session", "colab"
    )
    assert not explained and explained.finding is None and explained.id == ""
    assert 0 < len(explained.nearest) <= 3
    assert all(link.startswith("http") for _, link in explained.nearest)
    assert "Possibly related" in str(explained) and "If you ask for help" in str(explained)
    assert doctor.explain_error("zzz").nearest == ()


def test_an_exception_is_explained_with_those_that_led_to_it():
    try:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise RuntimeError("the checkpoint was not written") from error
    except RuntimeError as error:
        assert doctor.explain_error(error, "colab").id == "little-disk"


def test_the_paths_in_a_text_say_where_it_was_raised():
    text = "Traceback (most recent call last):\n  File {}\nRuntimeError: CUDA out of memory"
    on_colab = doctor.explain_error(text.format("/content/train.py")).finding.remedy
    assert "Runtime > Restart session" in on_colab
    assert (
        "Runtime > Restart session"
        not in doctor.explain_error(text.format("/kaggle/working/x")).finding.remedy
    )
    assert (
        doctor.explain_error(text.format("/content/train.py"), "local").finding.remedy != on_colab
    )


def test_what_stands_in_a_message_is_never_taken_for_a_package():
    for row in ERRORS:
        explained = doctor.explain_error(row["text"], "colab")
        if explained and "NAME" not in PROBLEMS[explained.id].remedy:
            assert explained.finding.remedy == PROBLEMS[explained.id].remedy


def hostile(pattern):
    """A text made of a pattern's own words, so that it nearly fits everywhere."""
    words = re.findall(r"[a-z_]{3,}", re.sub(r"\\.|\[[^\]]*\]|\{[^}]*\}", " ", pattern)) or ["x"]
    return " ".join(words[:-1] or words) + " "


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=lambda problem: problem.id)
def test_every_pattern_grows_with_the_text_and_no_faster(problem):
    """Four times the text may take eight times as long, on a machine that others use; not sixteen."""
    of_cases = [one for case in problem.cases for one in (*case.shows, *case.unless)]
    for pattern in [*problem.errors, *of_cases]:
        compiled = re.compile(pattern)
        text = hostile(pattern)
        times = {
            size: _seconds(compiled, (text * (size // len(text) + 1))[:size])
            for size in (4_096, 16_384)
        }
        assert times[16_384] < max(8 * times[4_096], 0.02), pattern


def _seconds(pattern, text):
    best = 1.0
    for _ in range(3):
        start = time.process_time()
        pattern.search(text)
        best = min(best, time.process_time() - start)
    return best


def test_colours_are_taken_out_and_long_texts_cut():
    assert (
        raised.plain("\x1b[31mRuntimeError\x1b[39m: CUDA out of memory")
        == "RuntimeError: CUDA out of memory"
    )
    assert len(raised.plain("\x1b[0m" * 400_000)) <= 70_000
