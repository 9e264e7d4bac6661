import shutil

import pytest

from harness.browser import Browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not shutil.which("chromium"):
        pytest.skip("no chromium: clients in a browser were not tested")
    with Browser(shutil.which("chromium"), tmp_path_factory.mktemp("profile")) as browser:
        yield browser
