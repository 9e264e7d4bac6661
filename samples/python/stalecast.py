"""Values of a Stalecast remote configuration that change while the program runs; standard library only.

    with Client("http://127.0.0.1:8080", defaults={"welcome_text": "Welcome"}) as config:
        config.on_update(lambda keys: print(keys, config.get_string("welcome_text")))
        ...
"""

import json
import pathlib
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid


class Client:
    """Fetches at once, or begins with what `cache` holds, and listens in a thread until `close`. Listeners run there.

    `token` is a key, or a function that is asked for one at first and after each 401.
    """

    def __init__(self, endpoint="http://127.0.0.1:8080", project="demo", *, namespace="firebase", topic="PUSH_RC",
                 token=None, defaults=None, cache=None, on_error=None):
        self.endpoint, self.project, self.namespace, self.topic = endpoint.rstrip("/"), project, namespace, topic
        self.token, self.on_error = token, on_error or (lambda error: None)
        self.defaults = {key: _text(value) for key, value in (defaults or {}).items()}
        self.cache = pathlib.Path(cache) if cache else None
        self._shown = None if callable(token) else token
        # The stream's `client` and the fetches' `appInstanceId` are one id: with two, the server counts two clients.
        self._record = {"id": uuid.uuid4().hex, "version": 0, "entries": {}, **self._load()}
        self._listeners, self._lock, self._cursor, self._retry = [], threading.Lock(), None, 1.0
        self._closed, self._first = threading.Event(), threading.Event()
        threading.Thread(target=self._run, name="stalecast", daemon=True).start()

    # Values, as Firebase's SDK for the web reads them

    def get_value(self, key):
        """The text and its source: `remote`, `default` or `static`."""
        if key in self._record["entries"]:
            return self._record["entries"][key], "remote"
        return (self.defaults[key], "default") if key in self.defaults else ("", "static")

    def get_string(self, key):
        return self.get_value(key)[0]

    def get_boolean(self, key):
        return self.get_string(key).lower() in ("1", "true", "t", "yes", "y", "on")

    def get_number(self, key):
        """0 for a text that is no number."""
        try:
            return float(self.get_string(key))
        except ValueError:
            return 0.0

    def get_all(self):
        return {key: self.get_string(key) for key in {**self.defaults, **self._record["entries"]}}

    @property
    def version(self):
        return self._record["version"]

    def on_update(self, listener):
        """Calls `listener` with the sorted keys whose values changed; the function that comes back removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def wait(self, timeout=None):
        """Waits for the first answer of the server; false when the time is up."""
        return self._first.wait(timeout)

    def close(self):
        """The thread ends with the next line that the server sends."""
        self._closed.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Fetches

    def fetch(self):
        """Asks the server now, and returns the keys that changed."""
        body = {"appId": "1:123456789012:web:57a1eca57", "appInstanceId": self._record["id"], "appInstanceIdToken": "python",
                "sdkVersion": "python-0.3.0", "activeTemplateVersion": str(self.version)}
        path = f"/v1/projects/{self.project}/namespaces/{self.namespace}:fetch"
        # The cursor keeps a node that lags from answering what is older than the message.
        query = {"cursor": self._cursor} if self._cursor else {}
        with self._open(path, query, json.dumps(body).encode(), timeout=15) as answer:
            fetched = json.load(answer)
        version = int(fetched.get("templateVersion", 0))
        entries = {key: _text(value) for key, value in (fetched.get("entries") or {}).items()}
        with self._lock:
            if version < self.version:  # a server that lags
                return []
            before = self._record["entries"]
            changed = sorted(key for key in {**before, **entries} if before.get(key) != entries.get(key))
            self._keep(version=version, entries=entries)
        self._first.set()
        for listener in list(self._listeners) if changed else ():
            listener(changed)
        return changed

    def _fetch_until(self, version):
        """Tries again after a while, as long as it takes: what a message said is true until then."""
        failures = 0
        while not self._closed.is_set():
            try:
                self.fetch()
                if self.version >= version:
                    return
            except Exception as error:  # a listener's too: the thread goes on
                self.on_error(error)
            failures += 1
            self._closed.wait(random.uniform(0.5, 1.5) * min(900, 0.2 * 4 ** min(failures, 8)))

    # The server sends a comment at least every 30 s; silence for longer means that the connection is dead.
    def _open(self, path, query, body=None, timeout=75, headers=()):
        url = f"{self.endpoint}{path}?{urllib.parse.urlencode(query)}"
        for may_renew in (True, False):
            if self._shown is None and callable(self.token):
                self._shown = self.token()
            request = urllib.request.Request(url, body, {"Content-Type": "application/json", **dict(headers)})
            if self._shown:
                request.add_header("Authorization", f"Bearer {self._shown}")
            try:
                return urllib.request.urlopen(request, timeout=timeout)
            except urllib.error.HTTPError as error:
                if error.code != 401 or not callable(self.token) or not may_renew:
                    raise
                self._shown = None

    # Messages

    def _run(self):
        if not self.version:
            self._fetch_until(0)
        self._first.set()
        failures = 0
        while not self._closed.is_set():
            began = time.monotonic()
            try:
                self._listen()
            except Exception as error:
                self.on_error(error)
            failures = 1 if time.monotonic() - began > 60 else failures + 1
            self._closed.wait(self._retry + random.uniform(0, min(60, 2 ** (failures - 1))))

    def _listen(self):
        query = {"topic": self.topic, "project": self.project, "namespace": self.namespace,
                 "client": self._record["id"], "have": self.version, "active": self.version}
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": self._cursor} if self._cursor else {})}
        with self._open("/v1/events", query, headers=headers) as stream:
            event = {}
            for line in stream:
                if self._closed.is_set():
                    return
                name, _, value = line.decode().rstrip("\r\n").partition(":")
                if name == "retry" and value.strip().isdigit():
                    self._retry = min(3600, int(value) / 1000)
                elif name:
                    event[name] = value.removeprefix(" ")
                elif line in (b"\n", b"\r\n"):
                    self._take(event)
                    event = {}

    def _take(self, event):
        message = json.loads(event["data"]) if "data" in event and "event" not in event else {}
        if event.get("event") == "reset":
            # The server's store is another one: versions may have begun anew.
            self._keep(version=0)
        self._cursor = event.get("id") or self._cursor
        version = int(message.get("latestTemplateVersionNumber", 0))
        if message.get("CONFIG_STATE") == "STALE" and (not version or version > self.version):
            # With many clients the server asks to spread the fetches.
            self._closed.wait(random.uniform(0, message.get("fetchWindowMs", 0)) / 1000)
            self._fetch_until(version)

    # The cache

    def _load(self):
        try:
            return json.loads(self.cache.read_text()) if self.cache and self.cache.exists() else {}
        except (OSError, ValueError):
            return {}

    def _keep(self, **changes):
        self._record = {**self._record, **changes}
        if self.cache:
            self.cache.with_suffix(".new").write_text(json.dumps(self._record))
            self.cache.with_suffix(".new").replace(self.cache)


def _text(value):
    return value if isinstance(value, str) else json.dumps(value)
