"""What the tests of the kit share."""

import pytest

from harness.debian import build_package


@pytest.fixture(scope="session")
def package(shipped, once):
    """The .deb, lightly compressed."""
    [deb] = once("package", lambda directory: build_package(shipped, directory)).glob("*.deb")
    return deb
