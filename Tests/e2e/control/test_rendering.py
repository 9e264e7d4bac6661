"""What the first fetch of an outcome costs with a template at Firebase's limits; recorded, not asserted as a speed."""

import json
import random
import time

from harness import configs
from harness.daemon import LONG
from harness.figures import record
from harness.http1 import fetch
from harness.templates import template
from harness.waiting import eventually

CONDITIONS, PARAMETERS, OUTCOMES = 500, 2000, 200 if LONG else 30
PATH = "/v1/projects/demo/namespaces/firebase:fetch"
TYPE = ("Content-Type", "application/json")


def large_template():
    """Every parameter has values under three conditions; every condition asks for a signal of its own."""
    conditions = [{"name": f"c{number}", "expression": f"app.customSignal['s{number % 90}'].contains(['-{number}-'])"}
                  for number in range(CONDITIONS)]
    parameters = {f"parameter_{number:04}": {
        "defaultValue": {"value": f"default {number}"},
        "conditionalValues": {f"c{under(number, step)}": {"value": f"value {number} {step}"}
                              for step in range(3)}} for number in range(PARAMETERS)}
    return template(parameters, conditions=conditions)


def under(number, step):
    """The place of the condition of a parameter's value."""
    return (number * 7 + step * 11) % CONDITIONS


def expected(chosen):
    """Of the values whose condition is true the one of the first condition counts."""
    entries = {}
    for number in range(PARAMETERS):
        steps = sorted((step for step in range(3) if under(number, step) in chosen), key=lambda s: under(number, s))
        entries[f"parameter_{number:04}"] = f"value {number} {steps[0]}" if steps else f"default {number}"
    return entries


def body(chosen):
    signals = {}
    for number in chosen:
        signals[f"s{number % 90}"] = signals.get(f"s{number % 90}", "-") + f"{number}-"
    return json.dumps({"appId": "1:1:web:a", "appInstanceId": "a", "appInstanceIdToken": "b",
                       "customSignals": signals}).encode()


async def timed(daemon, request):
    begin = time.perf_counter()
    answer = await fetch(daemon.edge, PATH, "POST", (TYPE,), request)
    assert answer.status == 200
    return (time.perf_counter() - begin) * 1000, answer.json()


@configs.one_half
async def test_first_renderings_of_a_template_at_its_limits(daemon, half):
    await daemon.publish(large_template())
    chance, first, again = random.Random(7), [], []
    for _ in range(OUTCOMES):
        chosen = chance.sample(range(CONDITIONS), 30)
        request = body(chosen)
        milliseconds, answer = await timed(daemon, request)
        first.append(milliseconds)
        assert answer["entries"] == expected(set(chosen))
        again.append((await timed(daemon, request))[0])
    for name in ("stalecast_rendering_seconds_count", "stalecast_rendering_hits_total"):
        assert await eventually(lambda: daemon.metric(name), OUTCOMES) == OUTCOMES
    rendering = await daemon.metric("stalecast_rendering_seconds_sum") / OUTCOMES * 1000
    record(f"first_rendering_{half}", conditions=CONDITIONS, parameters=PARAMETERS, renderingMs=rendering,
           firstFetchMs=sorted(first)[OUTCOMES // 2], worstFirstFetchMs=max(first),
           fetchAgainMs=sorted(again)[OUTCOMES // 2])
