"""The README: its code runs as it stands there, its commands exist, and it stays short."""

import re
import subprocess
import sys
import zlib

from course.publish import source_zip


def test_the_code_of_the_readme_runs(root, tmp_path):
    text = (root / "README.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    code = "\n".join(blocks)
    place = "/content/drive/MyDrive/my-run"  # there is no Drive here
    assert place in code
    code = code.replace(place, str(tmp_path / "my-run"))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "T4 GPU" in done.stdout and "units" in done.stdout
    assert [file.name for file in (tmp_path / "my-run").glob("*300*")]


def test_the_commands_of_the_readme_are_there(root):
    text = (root / "README.md").read_text("utf-8")
    commands = re.findall(r"(?m)^(colab-(?:helpers|doctor)) (\S+)", text)
    assert len(commands) == 4
    for program, word in commands:
        module = program.replace("-", "_")
        help_of = [module, "--help"] if word.startswith("--") else [module, word, "--help"]
        done = subprocess.run([sys.executable, "-m", *help_of], capture_output=True, text=True)
        assert done.returncode == 0 and word in done.stdout, word


def test_the_download_is_as_large_as_the_readme_says(root):
    size = sum(len(zlib.compress(file.read_bytes())) for file in source_zip.files(root))
    [told] = re.findall(r"a download of (\d+) MB", (root / "README.md").read_text("utf-8"))
    assert abs(size / 1e6 - int(told)) < 0.7
