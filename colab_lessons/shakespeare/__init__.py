"""Shakespeare's plays and poems, one integer per character: the text that the course's model learns.

`sources.toml` says where each comes from.
"""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import torch

#: A character's id is its place here: the newline, then ASCII from the space to "~".
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
_FOLDER = Path(__file__).parent


@cache
def read(part: str = "train") -> str:
    """Return a part's text: "train" (4.9 million characters) or "test" (*Macbeth*, *The Tempest*).

    >>> read("test")[:7], len(read("test"))
    ('MACBETH', 201791)
    """
    return lzma.decompress((_FOLDER / f"{part}.txt.xz").read_bytes()).decode("ascii")


def load(part: str = "train") -> torch.Tensor:
    """Return a part's text as ids, one byte each: uint8 of shape (characters,).

    >>> load("test").shape, decode(load("test")[:7])
    (torch.Size([201791]), 'MACBETH')
    """
    return encode(read(part))


def encode(text: str) -> torch.Tensor:
    """Return the id of each character: uint8 of shape (len(text),).

    Raises:
        ValueError: `text` has a character that isn't one of the 96.

    >>> encode("To be").tolist()
    [53, 80, 1, 67, 70]
    """
    if strange := sorted(set(text) - set(CHARACTERS)):
        raise ValueError(
            f"The model has no id for {', '.join(map(repr, strange[:5]))}: it knows the newline and "
            "ASCII from the space to '~'."
        )
    codes = (
        torch.frombuffer(bytearray(text, "ascii"), dtype=torch.uint8) if text else torch.empty(0)
    )
    return (codes.clamp(min=31) - 31).to(torch.uint8)  # the newline, 10, becomes 0


def decode(ids: torch.Tensor) -> str:
    """Return the text of `ids`, whole numbers of shape (characters,).

    >>> decode(encode("To be,\\nor not"))
    'To be,\\nor not'
    """
    return "".join(CHARACTERS[i] for i in ids.tolist())
