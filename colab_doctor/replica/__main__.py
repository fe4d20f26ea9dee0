"""The command `colab-replica`: run notebooks with the Python and the packages of Google Colab."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from colab_doctor.notebook import cells, missing_imports
from colab_doctor.notebook.ipynb_reader import read_file
from colab_doctor.replica import environment, notebook_run
from colab_helpers import runtime_images
from colab_helpers._cli_utils import CommandError, positive_integer, run

_EXAMPLES = """\
examples:
  colab-replica run notebook.ipynb                     each cell in turn, until one fails
  colab-replica run *.ipynb --python python3.13        with this Python, if it is Colab's version
  colab-replica run notebook.ipynb --with-files        with the files beside it, which Colab wouldn't have

The first run installs what the notebooks import, in the versions of Colab's public list. Only the CPU
runtime is copied. Executed notebooks are kept in the folder's `out`.

exit code:
  0  every notebook runs        1  a notebook stops        2  the replica can't be made
"""
_FOLDER = Path("~/.cache/colab-replica")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    return run(lambda: _run_all(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="colab-replica",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="run")
    one = commands.add_parser("run", help="run notebooks")
    one.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    images = runtime_images.images()
    one.add_argument("--image", default="latest", choices=images, help="Colab image")
    one.add_argument("--list", type=Path, help="its package list, instead of Colab's public one")
    one.add_argument("--python", default="", help="a Python of the image's version")
    one.add_argument("--folder", type=Path, default=_FOLDER, help=f"cache folder: {_FOLDER}")
    one.add_argument(
        "--seconds", type=positive_integer, default=600, help="what a cell may take: 600"
    )
    one.add_argument("--with-files", action="store_true", help="copy the files beside notebooks")
    return parser


def _run_all(options: argparse.Namespace) -> int:
    read = (cells.cells(read_file(path)) for path in options.notebooks)
    imported = set().union(*map(missing_imports.distributions, read))
    image = runtime_images.images()[options.image]
    listed = environment.parse_list(_list(image, options.list))
    folder = options.folder.expanduser() / image.name
    interpreter = options.python or f"python{image.python.rpartition('.')[0]}"
    start = time.perf_counter()
    names = "nbclient nbformat packaging".split()
    wanted = environment.pinned({n: listed[n] for n in names if n in listed} | {**image.kernel})
    print(f"Colab's image {image.name}: Python {image.python}, {len(listed)} packages", flush=True)
    replica = environment.create(image, folder / "venv", interpreter, wanted)
    refused = environment.add(replica, imported, listed)
    print(f"What these notebooks import is there, after {time.perf_counter() - start:.0f} s.")
    for package in refused:
        print(f"pip can't install {package} here: cells that need it fail here, and not on Colab.")
    if replica.kernel_problem:
        print(
            "Colab's own package, google.colab, can't be installed here, so cells that import it fail here "
            f"and not on Colab ({replica.kernel_problem})."
        )
    green = True
    for number, path in enumerate(options.notebooks):
        again = any(path.name == earlier.name for earlier in options.notebooks[:number])
        out = folder / "out" / (f"{path.stem}-{number + 1}{path.suffix}" if again else path.name)
        result = notebook_run.run(replica, path, out, options.seconds, options.with_files)
        print(f"{path}: {result}", flush=True)
        green &= result.ok
    return 0 if green else 1


def _list(image: runtime_images.Image, path: Path | None) -> str:
    if path is not None:
        return path.read_text("utf-8")
    if image.name != runtime_images.LATEST:
        raise CommandError(
            f"Colab publishes the list of its latest image. For {image.name}, give one with --list: "
            f"{image.source} says where it was."
        )
    try:
        return runtime_images.fetch_list("cpu")
    except OSError as error:
        raise CommandError(
            f"Colab's package list can't be fetched ({error}). Download "
            f"{runtime_images.list_address('cpu')}, and give it with --list."
        ) from error


if __name__ == "__main__":
    sys.exit(main())
