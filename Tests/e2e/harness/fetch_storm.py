"""A storm of fetches: many clients, each on a connection that stands before the publish, fetch within a window."""

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from statistics import quantiles

from harness.http1 import Connection
from harness.templates import template

PATH = "/v1/projects/demo/namespaces/firebase:fetch"
SIGNAL = "stalecast_load"
INSTANCE = "stalecast-load-"
VERSION = re.compile(rb'"templateVersion":"(\d+)"')


def storm_template(number, outcomes=20, kilobytes=100):
    """About `kilobytes` of parameters; one in twenty has a value of its own for each of `outcomes` contexts."""
    conditions = [{"name": f"{SIGNAL}_{n}", "expression": f"app.customSignal['{SIGNAL}'].exactlyMatches(['{n}'])"}
                  for n in range(1, outcomes)]
    parameters = {}
    for index in range(max(1, kilobytes * 1024 // 129)):
        parameter = {"defaultValue": {"value": f"{number} {index} default".ljust(100, "x")}}
        if index % 20 == 0:
            parameter["conditionalValues"] = {
                f"{SIGNAL}_{n}": {"value": f"{number} {index} {n}".ljust(100, "x")} for n in range(1, outcomes)}
        parameters[f"{SIGNAL}_{1000 + index}"] = parameter
    return template(parameters, conditions=conditions)


def request_body(context):
    """The fetch of an app instance of a context, as the SDK for pages sends it."""
    return json.dumps({
        "app_id": "1:123456789012:web:57a1eca57", "app_instance_id": f"{INSTANCE}{context}",
        "app_instance_id_token": "stalecast-load", "sdk_version": "11.0.0", "language_code": "en-GB",
        "custom_signals": {SIGNAL: str(context)}}).encode()


@dataclass
class Outcome:
    """Answers of a storm: how many there were, and what was wrong with them."""

    fetched: int = 0
    stale: int = 0
    different: int = 0
    sizes: list = field(default_factory=list)
    seconds: list = field(default_factory=list)

    @property
    def figures(self):
        hundredths = quantiles(self.seconds, n=100)
        return {"p50Ms": hundredths[49] * 1000, "p99Ms": hundredths[98] * 1000}


class FetchStorm:
    """Clients whose connections stand. A client's time counts from when its fetch was due."""

    def __init__(self, daemon, clients, outcomes=20):
        self.daemon, self.outcomes = daemon, outcomes
        self.connections = [Connection(daemon.edge) for _ in range(clients)]

    async def __aenter__(self):
        places = asyncio.Semaphore(64)

        async def greet(connection):
            async with places:
                assert (await connection.request("GET", "/healthz")).status == 200

        await asyncio.gather(*map(greet, self.connections))
        return self

    async def __aexit__(self, *_):
        for connection in self.connections:
            connection.close()

    async def run(self, number, window=0.0, kilobytes=100, admit=None):
        """Publishes, and lets every client fetch, once `admit` of its number lets it; an answer that is no 200 fails."""
        version = int(await self.daemon.client().publish(storm_template(number, self.outcomes, kilobytes)))
        outcome, answers = Outcome(), set()
        bodies = [request_body(context) for context in range(self.outcomes)]
        start = time.monotonic()

        async def fetch(index, connection):
            due = start + window * index / len(self.connections)
            await asyncio.sleep(max(0, due - time.monotonic()))
            if admit:
                await admit(index)
            context = index % self.outcomes
            headers = (("Content-Type", "application/json"), ("If-None-Match", "*"))
            answer = await connection.request("POST", PATH, headers, bodies[context], timeout=60)
            assert answer.status == 200, answer
            outcome.seconds.append(time.monotonic() - due)
            outcome.sizes.append(len(answer.body))
            outcome.fetched += 1
            outcome.stale += int(VERSION.search(answer.body)[1]) < version
            answers.add((context, answer.body))

        await asyncio.gather(*(fetch(*each) for each in enumerate(self.connections)))
        outcome.different = len(answers) - min(len(self.connections), self.outcomes)
        return outcome
