"""Foreign SSE clients, each as a generator of (id, data) of unnamed events. Run in a thread."""

import json
import subprocess

import httpx
import httpx_sse
import requests
import sseclient
from ld_eventsource import SSEClient
from ld_eventsource.actions import Event
from ld_eventsource.config import ConnectStrategy, ErrorStrategy

from harness.sse import events_target


def url(port, topics=("PUSH_RC",)):
    return f"http://127.0.0.1:{port}{events_target(topics)}"


def resume_headers(last_id):
    return {"Last-Event-ID": last_id} if last_id else {}


def httpx_client(port, last_id=None):
    with httpx.Client(timeout=20, headers=resume_headers(last_id)) as client:
        with httpx_sse.connect_sse(client, "GET", url(port)) as source:
            for event in source.iter_sse():
                yield event.event, event.id, event.data


def sseclient_client(port, last_id=None):
    headers = {"Accept": "text/event-stream", **resume_headers(last_id)}
    with requests.get(url(port), stream=True, headers=headers, timeout=20) as answer:
        for event in sseclient.SSEClient(answer).events():
            yield event.event, event.id, event.data


def launchdarkly_client(port, last_id=None):
    client = SSEClient(ConnectStrategy.http(url(port)), last_event_id=last_id,
                       error_strategy=ErrorStrategy.always_continue())
    try:
        for action in client.all:
            if isinstance(action, Event):
                yield action.event, action.last_event_id, action.data
    finally:
        client.close()


def curl_client(port, last_id=None):
    """curl -N: its output is cut into events by blank lines."""
    headers = [option for name, value in resume_headers(last_id).items() for option in ("-H", f"{name}: {value}")]
    process = subprocess.Popen(["curl", "-sN", *headers, url(port)], stdout=subprocess.PIPE, text=True)
    try:
        fields = {}
        for line in process.stdout:
            line = line.rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                yield fields.get("event", "message"), fields.get("id"), fields["data"]
                fields = {}
            else:
                fields = {}
    finally:
        process.terminate()
        process.wait()


NODE_SCRIPT = """
const source = new EventSource(process.argv[1]);
const show = event => console.log(JSON.stringify([event.type, event.lastEventId, event.data]));
setInterval(() => {}, 1e6);  // its own reconnect timer does not keep the process alive
for (const type of ['message', 'synced', 'reset']) source.addEventListener(type, show);
"""


def node_client(port, last_id=None):
    """Node's EventSource; it cannot be given a first id, so the query carries it."""
    target = url(port) + (f"&last_event_id={last_id}" if last_id else "")
    process = subprocess.Popen(["node", "--experimental-eventsource", "-e", NODE_SCRIPT, target],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for line in process.stdout:
            yield tuple(json.loads(line))
    finally:
        process.terminate()
        process.wait()


CLIENTS = {
    "curl": curl_client,
    "httpx-sse": httpx_client,
    "sseclient-py": sseclient_client,
    "launchdarkly-eventsource": launchdarkly_client,
    "node": node_client,
}
