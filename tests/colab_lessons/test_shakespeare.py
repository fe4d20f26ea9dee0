"""The text that the course's model learns."""

import tomllib
from pathlib import Path

import pytest
import torch

from colab_lessons import shakespeare


def test_every_character_comes_back():
    every = shakespeare.CHARACTERS
    assert len(every) == 96
    assert shakespeare.encode(every).tolist() == list(range(96))
    assert shakespeare.decode(shakespeare.encode(every)) == every
    assert shakespeare.encode("").shape == (0,)


@pytest.mark.parametrize("strange", ["naïve", "tab\t", "\r\n", "€5"])
def test_what_the_model_has_no_id_for_is_told(strange):
    with pytest.raises(ValueError, match="no id for"):
        shakespeare.encode(strange)


def test_each_play_has_its_source_and_the_texts_are_what_the_sources_say():
    folder = Path(shakespeare.__file__).parent
    sources = tomllib.loads((folder / "sources.toml").read_text("utf-8"))["text"]
    assert len(sources) == 42
    assert {source["title"] for source in sources if source["part"] == "test"} == {
        "Macbeth",
        "The Tempest",
    }
    assert all(source["url"].startswith("http://www.gutenberg.org/") for source in sources)
    for part in ("train", "test"):
        said = sum(source["characters"] for source in sources if source["part"] == part)
        text = shakespeare.load(part)
        assert text.shape == (said,) and text.dtype == torch.uint8
    assert "MIRANDA" in shakespeare.read("test").upper()
    assert "Caliban" not in shakespeare.read("train")  # he is in The Tempest alone
