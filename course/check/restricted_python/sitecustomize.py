"""What a lesson's interpreter is denied. Put this folder on PYTHONPATH and say what in variables.

WITHOUT      import names that are not installed
NO_NETWORK   a file; each attempt to leave this machine is refused and written there
CORES        how many cores may be used
"""

import importlib.machinery
import importlib.metadata
import os
import socket

BLOCKED = set(os.environ.get("WITHOUT", "").split())
_find_spec = importlib.machinery.PathFinder.find_spec
_version = importlib.metadata.version
_connect = socket.socket.connect


def _refusing_find_spec(fullname, path=None, target=None):
    if fullname.partition(".")[0] in BLOCKED:
        return None
    return _find_spec(fullname, path, target)


def _refusing_version(name):
    if name.partition("-")[0] in BLOCKED:
        raise importlib.metadata.PackageNotFoundError(name)
    return _version(name)


def _refusing_connect(self, address):
    inside = not isinstance(address, tuple) or address[0] in ("127.0.0.1", "::1", "localhost")
    if not inside:
        with open(os.environ["NO_NETWORK"], "a", encoding="utf-8") as log:  # noqa: PTH123
            log.write(f"{address}\n")
        raise OSError(101, "Network is unreachable")
    return _connect(self, address)


if BLOCKED:
    finder = importlib.machinery.PathFinder
    setattr(finder, "find_spec", staticmethod(_refusing_find_spec))  # noqa: B010
    importlib.metadata.version = _refusing_version
if os.environ.get("NO_NETWORK"):
    setattr(socket.socket, "connect", _refusing_connect)  # noqa: B010
if os.environ.get("CORES"):
    allowed = sorted(os.sched_getaffinity(0))[: int(os.environ["CORES"])]
    os.sched_setaffinity(0, allowed)
