"""A headless Chromium with one page at a time, driven through its DevTools protocol over two pipes: no port, no WebSocket.
`apart` gives each test a world of its own in one process: a start takes a second of a processor."""

import base64
import contextlib
import importlib.util
import itertools
import json
import os
import select
import subprocess
import time
from pathlib import Path

# Keys that are no letters: their code and what they type.
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), " ": (32, " "), "ArrowDown": (40, ""), "ArrowUp": (38, "")}


class Browser:
    """`open(url)`, then `evaluate`, `press`, `type`, `shows`. `complaints` are errors and violations of all pages."""

    def __init__(self, binary, profile, *flags):
        self._command = [binary, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--remote-debugging-pipe", f"--user-data-dir={profile}", *flags, "about:blank"]
        self._begin()

    def _begin(self):
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        # Chromium reads requests from descriptor 3 and writes answers to 4, each ended by a zero byte.
        script = f'exec "$@" 3<&{requests} 4>&{answers}'
        with open(os.devnull, "wb") as nowhere:
            self.process = subprocess.Popen(["bash", "-c", script, "bash", *self._command],
                                            pass_fds=(requests, answers), stdout=nowhere, stderr=nowhere)
        os.close(requests)
        os.close(answers)
        self._numbers = itertools.count(1)
        self._held = b""
        self._forget({})

    def _forget(self, world):
        self._world, self._session, self._pages = world, None, set()
        self.complaints, self.requests = [], []

    def _end(self):
        os.close(self._requests)
        self.process.kill()
        self.process.wait()
        os.close(self._answers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end()

    @contextlib.contextmanager
    def apart(self):
        """Pages that are opened meanwhile have cookies, storage and a cache of their own; all are gone afterwards."""
        try:
            world = self._call("Target.createBrowserContext", session=False)
        except (AssertionError, OSError):  # it ended or hangs
            self._end()
            self._begin()
            world = self._call("Target.createBrowserContext", session=False)
        self._forget(world)
        try:
            yield self
        finally:
            with contextlib.suppress(AssertionError, OSError):
                self._call("Target.disposeBrowserContext", session=False, **self._world)

    # Pages

    def open(self, url):
        """Opens a page beside those there are; returns before it is loaded. The answer is for `use`."""
        target = self._call("Target.createTarget", url="about:blank", session=False, **self._world)["targetId"]
        self.use(self._call("Target.attachToTarget", targetId=target, flatten=True, session=False)["sessionId"])
        self._pages.add(self._session)
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        return self._session

    def use(self, page):
        """From now on everything is about this page."""
        self._session = page

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme):
        """`light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def advance(self, seconds):
        """Lets the page's clock run ahead: its timers fire at once. Returns the requests that it made meanwhile. Does not wait
        for their answers: while one is under way the clock runs to its end."""
        before, self._is_ahead = len(self.requests), False
        self.call("Emulation.setVirtualTimePolicy", policy="advance", budget=1000 * seconds)
        while not self._is_ahead:
            self._hear(self._next())
        return self.requests[before:]

    def screenshot(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    # What is in the page

    def evaluate(self, script):
        """The value of an expression in the page, as JSON has it; a promise's once it is fulfilled."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def shows(self, script, holds=bool, within=40):
        """The value of an expression in the page once it is as wanted."""
        deadline, pause = time.monotonic() + within, 0.02
        while not holds(seen := self.evaluate(script)):
            assert time.monotonic() < deadline, f"{script}: the page shows {seen!r}:\n{self.text()}"
            time.sleep(pause)
            # Each look lays the page out: fifty a second would keep a processor busy.
            pause = min(1.2 * pause, 0.2)
        return seen

    def reload(self):
        """Loads the page anew, and waits until it is there whole: what is asked before is asked of the old one."""
        self.evaluate("window.isOld = true")
        self.call("Page.reload")
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(AssertionError):  # between two pages there is none
                if self.evaluate("!window.isOld && document.readyState === 'complete'"):
                    return
            assert time.monotonic() < deadline, "the page does not load"
            time.sleep(0.02)

    def text(self):
        return self.evaluate("document.body?.innerText")

    def has(self, part, within=40):
        """Waits for a text to be seen."""
        return self.shows(f"document.body?.innerText.includes({json.dumps(part)})", within=within)

    # Hands

    def press(self, key, shift=False):
        code, text = KEYS[key]
        shape = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **shape)
        self.call("Input.dispatchKeyEvent", type="keyUp", **shape)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def tab_to(self, script, most=120):
        """Presses Tab until the focused element `e` is as `script` says."""
        for _ in range(most):
            if self.evaluate(f"(e => {script})(document.activeElement)"):
                return
            self.press("Tab")
        raise AssertionError(f"no Tab leads to {script}; last: {self.evaluate('document.activeElement.outerHTML')[:200]}")

    # Accessibility

    def violations(self):
        """What axe-core finds: rule, how grave, and where."""
        place = importlib.util.find_spec("axe_playwright_python").origin
        if not self.evaluate("'axe' in window"):
            self.call("Runtime.evaluate", expression=(Path(place).parent / "axe.min.js").read_text())
        found = self.evaluate("axe.run(document).then(r => r.violations.map(v => [v.id, v.impact, v.nodes.map(n => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? ''))]))")
        return [tuple(one) for one in found]

    # The protocol

    def call(self, method, **parameters):
        return self._call(method, **parameters)

    def _call(self, method, session=True, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session and self._session:
            message["sessionId"] = self._session
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            self._hear(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def hear(self, seconds=0.0):
        """Takes what came meanwhile."""
        while b"\0" in self._held or select.select([self._answers], [], [], seconds)[0]:
            self._hear(self._next())

    def _hear(self, event):
        # Ignores events of pages that an earlier test opened.
        if event.get("sessionId") not in self._pages:
            return
        # A late answer to an abandoned call has neither method nor params.
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.complaints.append(f"{details['text']} {details.get('exception', {}).get('description', '')}")
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.complaints.append(f"console: {parameters['args']}")
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                entry = parameters["entry"]
                self.complaints.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
            case "Audits.issueAdded" if parameters["issue"]["code"] == "ContentSecurityPolicyIssue":
                self.complaints.append(f"violation: {parameters['issue']['details']}")
            case "Emulation.virtualTimeBudgetExpired":
                self._is_ahead = True
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])

    def _next(self):
        while b"\0" not in self._held:
            assert select.select([self._answers], [], [], 30)[0], "the browser says nothing"
            piece = os.read(self._answers, 1 << 16)
            assert piece, f"the browser ended with {self.process.wait()}"
            self._held += piece
        text, _, self._held = self._held.partition(b"\0")
        return json.loads(text)
