"""What the tests of the kit share."""

import pytest

from harness.debian import build_package


@pytest.fixture(scope="session")
def package(shipped, tmp_path_factory):
    """The .deb, lightly compressed."""
    return build_package(shipped, tmp_path_factory.mktemp("package"))
