"""Put this folder on PYTHONPATH and name packages in WITHOUT: the interpreter then lacks them."""

import importlib.machinery
import importlib.metadata
import os

BLOCKED = set(os.environ.get("WITHOUT", "").split())
_find_spec = importlib.machinery.PathFinder.find_spec
_version = importlib.metadata.version


def find_spec(fullname, path=None, target=None):
    if fullname.partition(".")[0] in BLOCKED:
        return None
    return _find_spec(fullname, path, target)


def version(name):
    if name.partition("-")[0] in BLOCKED:
        raise importlib.metadata.PackageNotFoundError(name)
    return _version(name)


importlib.machinery.PathFinder.find_spec = staticmethod(find_spec)
importlib.metadata.version = version
