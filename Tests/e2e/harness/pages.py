"""Pages of a directory behind a web server of their own, for tests with a browser."""

import contextlib
import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

WEB = Path(__file__).parent.parent / "client/web"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def pages(directory):
    """The origin under which the files of `directory` are served."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(directory)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def sdk_pages(tmp_path_factory, name):
    """The origin of a page that loads an SDK: NAME.html and NAME.js, or the script that STALECAST_<NAME>_JS names."""
    directory = tmp_path_factory.mktemp("pages")
    shutil.copy(WEB / f"{name}.html", directory)
    shutil.copy(os.environ.get(f"STALECAST_{name.upper()}_JS") or WEB / f"{name}.js", directory / f"{name}.js")
    return pages(directory)
