"""The console in a real browser. `console(daemon)` is a page that is signed in; what it complains of fails the test."""

import contextlib

import pytest

from harness.cli import Cli
from harness.console import go


@pytest.fixture
def browser(browser):
    """A browser without a page, of which a complaint fails the test."""
    browser.excused = ()
    yield browser
    browser.hear(0.1)
    rest = [text for text in browser.complaints if not any(part in text for part in browser.excused)]
    assert not rest, rest


@pytest.fixture
def console(browser):
    """`console(daemon, screen="now", **parameters)` opens a page that is signed in."""

    def open_(daemon, screen="now", **parameters):
        page = browser.open(Cli(daemon).json("console")["url"])
        browser.has("Sign out")
        go(browser, screen, **parameters)
        return page

    return open_
