"""The packages of each of Colab's runtime images, as last tested."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from colab_helpers._data_files import load_toml

LATEST = "latest"


@dataclass(frozen=True)
class Image:
    """One image: its Python, and for each runtime ("cpu", "gpu", "tpu") distribution -> version.

    `kernel` has what runs a notebook there, `colab` what Colab's own package imports; `seen` is the
    date of the lists.
    """

    name: str
    python: str
    seen: date
    source: str
    kernel: Mapping[str, str]
    colab: Mapping[str, str]
    runtimes: Mapping[str, Mapping[str, str]]


def images() -> Mapping[str, Image]:
    """Return every image by the name that Colab's menu gives it, the present one first.

    >>> list(images())[:2]
    ['latest', '2026.07']
    """
    return {name: _image(name, row) for name, row in _table()["image"].items()}


def list_address(runtime: str) -> str:
    """Return where Colab keeps the present package list of a runtime: "cpu", "gpu" or "tpu".

    Raises KeyError for another.

    >>> list_address("tpu").endswith("pip-freeze.tpu.txt")
    True
    """
    return _table()["lists"][runtime]


def fetch_list(runtime: str) -> str:
    """Return Colab's present package list of "cpu", "gpu" or "tpu", from the network.

    Raises KeyError for another runtime, and OSError where there is no network.
    """
    import urllib.request  # which takes a while, and is rarely needed

    with urllib.request.urlopen(list_address(runtime), timeout=30) as answer:
        return answer.read().decode()


def environment() -> Mapping[str, str]:
    """Return the environment variables of a CPU session."""
    return _table()["environment"]


def version_tuple(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version, to be compared.

    >>> version_tuple("2.11.0+cu130") < version_tuple("3.0")
    True
    """
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def is_older(version: str, than: str) -> bool:
    """Say whether a version is below another one; False for one that has no numbers, such as "main".

    `version` and `than` are as packages write them, such as "2.11.0+cu130".

    Release candidates and nightly builds come before their release.

    >>> is_older("2.5.1", "2.6"), is_older("main", "2.6"), is_older("9.1.0.7", "9.1.0.8")
    (True, False, True)
    >>> is_older("2.6.0-rc1", "2.6"), is_older("2.6.0-cpu", "2.6")
    (True, False)
    """
    if not version[:1].isdecimal():
        return False
    return _order(version) < _order(than)


def _order(version: str) -> tuple[tuple[int, ...], bool]:
    """The numbers of a release without zeros at the end, and whether it's that release, not one before it."""
    digits, rest = re.match(r"([\d.]*)(.*)", version.split("+")[0]).groups()  # type: ignore[union-attr]
    found = [int(part) for part in digits.split(".") if part]
    while found and not found[-1]:
        found.pop()
    before = re.match(r"[.-]?(a|b|c|rc|dev|alpha|beta|pre)[.-]?(\d|$)", rest)
    return tuple(found), not before


@functools.cache
def _table() -> Mapping:
    return load_toml("colab_helpers", "runtime_images.toml")


def _image(name: str, row: Mapping) -> Image:
    lists = {key: value for key, value in row.items() if key in ("cpu", "gpu", "tpu")}
    return Image(
        name, row["python"], row["seen"], row["source"], row["kernel"], row["colab"], lists
    )
