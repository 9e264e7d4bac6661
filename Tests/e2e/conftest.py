"""Fixtures, coroutine tests, time limits, and what is shown when a test fails."""

import asyncio
import fcntl
import inspect
import os
import resource
import shutil
import signal
import subprocess

import pytest

from harness import configs
from harness.browser import Browser
from harness.daemon import BINARY, LONG, REPOSITORY, Daemon


def pytest_configure():
    """Ten thousand streams need descriptors, here and in the daemons that inherit the limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def pytest_make_parametrize_id(val):
    """Cuts what would make a test's name unreadable."""
    if isinstance(val, (bytes, str)) and len(val) > 80:
        return f"{ascii(val[:30])}… {len(val)}"
    return None


def pytest_itemcollected(item):
    if item.get_closest_marker("campaign") and not LONG:
        item.add_marker(pytest.mark.skip(reason="a campaign: deploy/test.sh --long"))
    if name := group(item):
        item.add_marker(pytest.mark.xdist_group(name))


def pytest_collection_modifyitems(items):
    # Long tests begin first, so that no process is left alone with one at the end. The sort keeps groups together.
    longest = {}
    for item in items:
        name = group(item) or item.nodeid
        longest[name] = max(longest.get(name, 0), limit(item))
    items.sort(key=lambda item: -longest[group(item) or item.nodeid])
    if not os.access(BINARY, os.X_OK):
        missing = pytest.mark.skip(reason=f"no daemon binary at {BINARY}; build it or set STALECAST_BIN")
        for item in items:
            if {"launch", "daemon"} & set(item.fixturenames):
                item.add_marker(missing)


def group(item):
    """Name of the tests that stay in one process of `-n`, because they share a daemon or a file's fixture; else None."""
    definitions = item._fixtureinfo.name2fixturedefs
    if any(definitions[name][-1].scope == "module" for name in item.fixturenames if name in definitions):
        return f"group-{item.path.stem}"
    return f"group-{item.path.stem}-{item.originalname}" if item.get_closest_marker("shared") else None


def limit(item):
    """Seconds that the test may take."""
    marker = item.get_closest_marker("limit")
    return marker.args[0] if marker else 60


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Runs coroutine tests, each in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Ends a test that hangs, with a traceback of where it hung. A slow machine has twice the time."""
    seconds = 2 * limit(item)

    def overdue(*_):
        raise TimeoutError(f"the test took longer than its limit of {seconds} s")

    before = signal.signal(signal.SIGALRM, overdue)
    signal.alarm(seconds)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for index, daemon in enumerate(getattr(item, "daemons", [])):
            state = "running" if daemon.running else f"ended with {daemon.process and daemon.process.poll()}"
            title = f"daemon {index} ({daemon.half}, {state}), configuration"
            report.sections.append((title, daemon.config.read_text()))
            report.sections.append((f"daemon {index} log (tail)", daemon.log_tail()))
    return report


@pytest.fixture(params=configs.HALVES)
def half(request):
    """Which half of Edge serves the streams."""
    return request.param


@pytest.fixture
def launch(request, tmp_path):
    """Makes daemons: `launch(config=…, half=…, start=True)`. All are gone after the test; logs show on failure."""
    request.node.daemons = []

    def make(config=None, *, half="engine", start=True, data=None):
        daemon = Daemon(tmp_path / f"daemon{len(request.node.daemons)}", config, half, data)
        request.node.daemons.append(daemon)
        if start:
            daemon.start()
        return daemon

    yield make
    for daemon in request.node.daemons:
        daemon.dispose()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """`kept(half)`: the daemon that the tests of a file marked `shared` have together."""
    daemons = {}

    def keep(half):
        if half not in daemons or not daemons[half].running:
            daemons[half] = Daemon(tmp_path_factory.mktemp(half), half=half)
            daemons[half].start()
        return daemons[half]

    yield keep
    for daemon in daemons.values():
        daemon.dispose()


@pytest.fixture
def daemon(request, half):
    """A running daemon with default settings, once on each half of Edge. Must be alive when the test ends well."""
    if request.node.get_closest_marker("shared"):
        daemon = request.getfixturevalue("kept")(half)
        request.node.daemons = [daemon]
    else:
        daemon = request.getfixturevalue("launch")(half=half)
    yield daemon
    code = daemon.process.poll()
    assert code is None or code >= 0, f"daemon was ended by signal {-code}:\n{daemon.log_tail()}"


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """`once(name, make)`: a directory that `make(directory)` filled in one process of `-n`, for all of them."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def directory(name, make):
        made = shared / name
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                make(unfinished := shared / f"{name}.unfinished")
                unfinished.rename(made)
        return made

    return directory


@pytest.fixture(scope="session")
def shipped(once):
    """The binary that is shipped, as deploy/install.sh links it; STALECAST_SHIPPED names one that was made before."""
    if given := os.environ.get("STALECAST_SHIPPED"):
        return given
    if ".build/" not in BINARY:
        pytest.skip("the binary is not of this checkout: what is shipped was not linked")

    def link(directory):
        configuration = "debug" if "/debug/" in BINARY else "release"
        made = subprocess.run([REPOSITORY / "deploy/install.sh", "--to", directory, "--configuration", configuration],
                              capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stdout + made.stderr

    return str(once("shipped", link) / "stalecast")


@pytest.fixture
def clock(tool, tmp_path):
    """`clock(seconds)` sets a daemon's clock so far ahead of the machine's; `clock.more` is that daemon's environment."""
    library, steps = tmp_path / "clock_offset.so", tmp_path / "steps"
    subprocess.run([tool("cc"), "-O2", "-shared", "-fPIC", "-o", library,
                    REPOSITORY / "Tests/e2e/harness/clock_offset.c"], check=True)

    def set_(seconds):
        with open(steps, "r+b" if steps.exists() else "wb") as file:
            file.write(int(seconds).to_bytes(8, "little", signed=True))

    set_(0)
    set_.more = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(steps)}
    return set_


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """The one browser of this process of `-n`."""
    if not (binary := shutil.which("chromium")):
        pytest.skip("no chromium: what a browser shows was not tested")
    with Browser(binary, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(chromium):
    """A browser without a page, and without anything that another test left."""
    with chromium.apart():
        yield chromium


@pytest.fixture(scope="session")
def tool():
    """`tool("nginx")`: path of an installed program, else the test is skipped loudly."""

    def find(name):
        path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")
        if not path:
            pytest.skip(f"{name} is not installed: this check did not run")
        return path

    return find
