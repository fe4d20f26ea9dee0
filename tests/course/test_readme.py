"""The README's code runs as it stands there, from its first line to its last."""

import re
import subprocess
import sys


def test_the_code_of_the_readme_runs(root, tmp_path):
    text = (root / "README.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    code = "\n".join(blocks)
    for place in ("/content/drive/MyDrive/my-run", "/content/spare"):  # there is no Drive here
        assert place in code
        code = code.replace(place, str(tmp_path / place.rpartition("/")[2]))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "T4 GPU" in done.stdout and "units" in done.stdout
    assert [file.name for file in (tmp_path / "my-run").glob("*300*")]


def test_the_commands_of_the_readme_are_there(root):
    text = (root / "README.md").read_text("utf-8")
    for command in re.findall(r"\| `colab-helpers (\w+)", text):
        done = subprocess.run(
            [sys.executable, "-m", "colab_helpers", command, "--help"], capture_output=True
        )
        assert done.returncode == 0
