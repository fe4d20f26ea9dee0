"""What lessons give to keep, run as it stands there: 14 with a job that is killed and one that hangs."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

LESSONS = Path(__file__).parents[2] / "lessons"
ONCE_KILLED = """
import json, os, signal
if not os.path.exists("seen"):
    open("seen", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
json.dump(20, open("last.json", "w"))
"""
HANGS = """
import json, time
json.dump(5, open("last.json", "w"))
time.sleep(600)
"""


#: Stands for Google Cloud's: the bucket is a folder, and the first attempt fails.
GCLOUD = """#!/bin/sh
mkdir bucket || exec cp "$3" "$4" bucket
exit 1
"""


def card(lesson, language):
    """The last block of code in the text of a lesson."""
    text = (LESSONS / f"{lesson}.py").read_text("utf-8")
    lines = text.rpartition(f"# ```{language}\n")[2].partition("# ```\n")[0].splitlines()
    return "".join(f"{line[2:]}\n" for line in lines)


def run(folder, environment, *command):
    """Run it there; return what it printed."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    ("cell", "limit", "saved", "status"), [(ONCE_KILLED, 60, "20", "0"), (HANGS, 20, "5", "124")]
)
def test_the_script_to_keep_ends_and_brings_home_what_there_is(
    tmp_path, cell, limit, saved, status
):
    script = card("14_beyond_colab", "bash").replace("sleep 5", "sleep 1")
    script = script.replace("sleep 60", "sleep 0")
    (tmp_path / "run.sh").write_text(script)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbformat.write(notebook, tmp_path / "mine.ipynb")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in {"gcloud": GCLOUD, "sudo": '#!/bin/sh\necho "$@" > stopped\n'}.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    environment = {
        "PATH": f"{commands}:{Path(sys.executable).parent}:/usr/bin:/bin",
        "LIMIT": f"{limit}s",
        "HOME": str(tmp_path),
    }
    run(tmp_path, environment, "bash", "run.sh")
    assert (tmp_path / "stopped").read_text() == "shutdown now\n"
    home = tmp_path / "bucket"
    subprocess.run(["sha256sum", "-c", "results.sha256"], cwd=home, check=True)
    subprocess.run(["tar", "xf", "results.tar"], cwd=home, check=True)
    assert (home / "last.json").read_text() == saved
    assert (home / "status").read_text().strip() == status


#: A small model with a tokenizer, as a hub would give it.
SMALL = """
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen3Config

config = Qwen3Config(
    vocab_size=16, hidden_size=64, intermediate_size=128, num_hidden_layers=1,
    num_attention_heads=4, num_key_value_heads=4, head_dim=16, eos_token_id=13,
)
AutoModelForCausalLM.from_config(config).save_pretrained("small")
words = {token: k for k, token in enumerate([*"0123456789+=-", "<end>", "<unknown>"])}
letters = Tokenizer(models.WordLevel(words, unk_token="<unknown>"))
letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
PreTrainedTokenizerFast(tokenizer_object=letters, eos_token="<end>").save_pretrained("small")
"""


@pytest.mark.slow  # half a minute, and lesson 15 itself runs with each change
def test_the_lines_to_keep_of_15_train_and_save_an_adapter(tmp_path):
    lines = card("15_fine_tune", "python")
    assert lines.count('"Qwen/Qwen3-0.6B"') == lines.count('{"": 0}') == 1
    lines = lines.replace("Qwen/Qwen3-0.6B", "small").replace('{"": 0}', '{"": "cpu"}')
    script = (
        f"{SMALL}\n{lines}\nprint(loss.isfinite().item(), all(w.grad is None for w in weights))"
    )
    said = run(tmp_path, {**os.environ, "HF_HUB_OFFLINE": "1"}, sys.executable, "-c", script)
    assert said.split()[-2:] == ["True", "True"]
    assert (tmp_path / "adapter" / "adapter_model.safetensors").stat().st_size > 10_000
