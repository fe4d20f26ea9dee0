"""The site, built once for all tests."""

import functools
import http.server
import shutil
import threading

import filelock
import pytest

from course.config import load
from course.site import building

#: The site does not stand at the root of its host.
PLACE = "somebody/course"


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id):
    """The built site's folder; workers share one."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared if worker_id == "master" else shared.parent
    folder = shared / "site"
    with filelock.FileLock(shared / "site.lock"):
        if not (folder / "done").exists():
            building.build(load(), folder, with_python=shutil.which("npm") is not None)
            (folder / "done").touch()
    return folder / "html"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def translate_path(self, path):
        return super().translate_path(path.removeprefix(f"/{PLACE}"))


@pytest.fixture(scope="session")
def address(site):
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/{PLACE}/"
    server.shutdown()
    server.server_close()
