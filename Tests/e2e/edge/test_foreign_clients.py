"""The stream as seen by foreign clients: publish, rollback, resume, and a restart of the daemon."""

import asyncio
import json
import queue
import shutil
import subprocess
import threading

import pytest

from harness.templates import marked

foreign = pytest.importorskip("harness.foreign", reason="pip install httpx httpx-sse sseclient-py requests "
                              "launchdarkly-eventsource")


class Listener:
    """A foreign client in a thread; what it dispatches arrives in a queue."""

    def __init__(self, name, port, last_id=None):
        self.queue, self.name = queue.Queue(), name
        self.events = foreign.CLIENTS[name](port, last_id)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        try:
            for event in self.events:
                self.queue.put(event)
        except Exception as error:  # the reader's view is what is tested: hand it over
            self.queue.put(("failed", None, repr(error)))

    async def next(self, timeout=10):
        """The next (event, id, data) the client dispatched; empty `event:`-only blocks of httpx-sse included."""
        return await asyncio.to_thread(self.queue.get, True, timeout)

    async def message(self, timeout=10):
        """The next STALE message and its id."""
        while True:
            name, identity, data = await self.next(timeout)
            assert name != "failed", f"{self.name}: {data}"
            if name == "message" and data:
                return json.loads(data), identity

    async def synced(self):
        while (event := await self.next())[0] != "synced":
            assert event[0] != "failed", f"{self.name}: {event[2]}"


@pytest.fixture(params=list(foreign.CLIENTS))
def listen(request, tool):
    name = request.param
    if name in ("curl", "node"):
        tool(name)
    if name == "node" and not node_has_eventsource():
        pytest.skip("this node has no EventSource (needs --experimental-eventsource): the check did not run")
    return lambda port, last_id=None: Listener(name, port, last_id)


def node_has_eventsource():
    done = subprocess.run([shutil.which("node"), "--experimental-eventsource", "-e", "process.exit(typeof EventSource "
                           "=== 'function' ? 0 : 1)"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.limit(60)
async def test_it_sees_publish_and_rollback_and_resumes(daemon, listen):
    client = daemon.client()
    await client.publish(marked("one"))
    listener = listen(daemon.edge)
    await listener.synced()
    await client.publish(marked("two"))
    message, cursor = await listener.message()
    assert (message["CONFIG_STATE"], message["latestTemplateVersionNumber"]) == ("STALE", "2")
    assert message["updateType"] == "FORCED_UPDATE"
    await client.rollback(1)
    message, _ = await listener.message()
    assert (message["latestTemplateVersionNumber"], message["updateType"], message["rollbackSource"]) == (
        "3", "ROLLBACK", "1")
    resumed = listen(daemon.edge, cursor)
    message, _ = await resumed.message()
    assert message["latestTemplateVersionNumber"] == "3", "one coalesced message for what was missed"


@pytest.mark.limit(60)
async def test_text_from_templates_never_makes_a_second_event(daemon, listen):
    listener = listen(daemon.edge)
    await listener.synced()
    evil = "x\r\n\r\nevent: injected\r\ndata: {}\r\n\r\n\u2028\u2029\x85\x00\x0b"
    body = {"parameters": {"a": {"defaultValue": {"value": evil}}}, "version": {"description": "\u2028\u2029"}}
    await daemon.publish(body)
    assert (await listener.message())[0]["latestTemplateVersionNumber"] == "1"
    await daemon.publish(marked("next"))
    name, _, data = await listener.next()
    assert name == "message" and json.loads(data)["latestTemplateVersionNumber"] == "2"


@pytest.mark.limit(60)
@pytest.mark.parametrize("name", ("launchdarkly-eventsource", "node"))
async def test_reconnecting_clients_come_back_after_a_restart_by_themselves(launch, half, tool, name):
    """Browsers and Node give up for good on a refused reconnect: `retry` told at drain must outlast the restart."""
    if name == "node" and not (tool("node") and node_has_eventsource()):
        pytest.skip("this node has no EventSource: the check did not run")
    daemon = launch(half=half)
    await daemon.publish(marked("one"))
    listener = Listener(name, daemon.edge)
    await listener.synced()
    assert await asyncio.to_thread(daemon.stop) == 0
    await asyncio.to_thread(daemon.start)
    version = await daemon.publish(marked("while it was away"))
    message, _ = await listener.message(timeout=30)
    assert message["latestTemplateVersionNumber"] == str(version)
