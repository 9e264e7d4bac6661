"""How long a refusal takes tells nothing (G13): of names without a grant, those that are there take as long as those that
are not. Times of both are taken in turn on one connection and compared by rank, so what else the machine does is in both."""

import json
import random
import re
import socket
import time

import pytest

from harness import configs
from harness.figures import record
from harness.keys import make_key
from harness.templates import marked

SAMPLES = 400
# Of two alike the share is a half, give or take 0.02 with 400 of each: ten times that three times over is no chance.
LIMIT = 0.2
TRIES = 3

PROJECTS = [{"id": "demo", "number": 1}, {"id": "shop", "number": 2}]
TOPICS = [configs.topic("SHARED", scopes=("demo/firebase", "shop/firebase")),
          configs.topic("ONLY_SHOP", scopes=("shop/firebase",))]
INSTANCE = json.dumps({"appId": "1:1:web:1", "appInstanceId": "cAAAAAAAAAAAAAAAAAAAAA", "appInstanceIdToken": "t"})

# What is there and is not granted, and what is not there, equally long.
NAMES = [("topic=SHARED&project=demo", "topic=NOWHER&project=demo"),
         ("topic=PUSH_RC&project=shop", "topic=PUSH_RC&project=shap"),
         ("topic=PUSH_RC&project=2", "topic=PUSH_RC&project=9"),
         ("topic=ONLY_SHOP&project=shop", "topic=ONLY_SHIP&project=shap"),
         ("topic=PUSH_RC&topic=SHARED&project=shop", "topic=PUSH_RC&topic=NOWHER&project=shap")]


def doors():
    """(what, request of what is there, request of what is not), as lines without credentials."""
    for path in ("/v1/events", "/v1/poll", "/v1/state"):
        for there, missing in NAMES:
            yield f"{path}?{there}", f"GET {path}?{there}&wait=0s", f"GET {path}?{missing}&wait=0s", ""
    for verb in (":fetch", ":streamFetchInvalidations"):
        for there, missing in (("shop", "shap"), ("2", "9")):
            yield f"{verb} {there}", *(f"POST /v1/projects/{name}/namespaces/firebase{verb}" for name in (there, missing)), INSTANCE
    ticket = [json.dumps({"topics": ["PUSH_RC"], "project": name}) for name in ("shop", "shap")]
    yield "ticket", "POST /v1/tickets", "POST /v1/tickets", ticket


def greater(these, those):
    """The share of pairs in which this one is greater: a half of what is alike, 0 or 1 of what never overlaps."""
    ranked = sorted([(value, True) for value in these] + [(value, False) for value in those])
    below = above = 0
    for _, is_this in ranked:
        if is_this:
            above += below
        else:
            below += 1
    return above / (len(these) * len(those))


class Asker:
    """Requests on one connection with one key, each with the nanoseconds that its answer took."""

    def __init__(self, port, key):
        self.key = key
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, line, body):
        fields = f"Host: 127.0.0.1\r\nAuthorization: Bearer {self.key}\r\n"
        if line.startswith("POST"):
            fields += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        request = f"{line} HTTP/1.1\r\n{fields}\r\n{body}".encode()
        begun = time.perf_counter_ns()
        self.socket.sendall(request)
        answer = self.socket.recv(1 << 16)
        taken = time.perf_counter_ns() - begun
        assert answer, "the connection ended"
        length = int(re.search(rb"\r\ncontent-length: (\d+)", answer, re.IGNORECASE).group(1))
        while len(answer.partition(b"\r\n\r\n")[2]) < length:
            answer += self.socket.recv(1 << 16)
        return taken, re.sub(rb"\r\nDate: [^\r]*", b"", answer, flags=re.IGNORECASE)


def compare(asker, there, missing, body):
    """How much longer what is there takes, as ``greater`` says; the answers must be the same."""
    bodies = body if isinstance(body, list) else [body, body]
    times, answers, sides = ([], []), set(), [0, 1] * SAMPLES
    random.Random(1).shuffle(sides)
    for side in sides:
        taken, answer = asker.ask((there, missing)[side], bodies[side])
        times[side].append(taken)
        answers.add(answer)
    assert len(answers) == 1, answers
    assert re.match(rb"HTTP/1.1 40[34] ", answers.pop()), "it is to be refused"
    return greater(*times)


def test_the_comparison_tells_what_differs():
    chance = random.Random(1)
    noise = [[chance.expovariate(0.01) for _ in range(SAMPLES)] for _ in range(2)]
    assert abs(greater(*noise) - 0.5) < 0.07
    assert greater([value + 100 for value in noise[0]], noise[1]) > 0.5 + LIMIT
    assert greater([1], [2]) == 0 and greater([2], [1]) == 1


@pytest.mark.limit(240)
async def test_what_is_there_takes_no_longer_to_be_refused(launch, half):
    daemon = launch(configs.config(half, projects=PROJECTS, topics=TOPICS, auth={"mode": "enforce"}), half=half)
    client = daemon.client(project="shop")
    await client.publish(marked("secret"))
    client.close()
    _, key = await make_key(daemon, {"actions": ["watch", "fetch"], "projects": ["demo"], "topics": ["PUSH_*"]})
    asker, farthest = Asker(daemon.edge, key), 0
    telling = {}
    for what, there, missing, body in doors():
        shares = []
        while len(shares) < TRIES and (not shares or abs(shares[-1] - 0.5) > LIMIT):
            shares.append(compare(asker, there, missing, body))
        farthest = max(farthest, abs(shares[-1] - 0.5))
        print(f"{what}: {', '.join(f'{share:.3f}' for share in shares)}")
        if abs(shares[-1] - 0.5) > LIMIT:
            telling[what] = shares
    record(f"times of refusals, {half}", farthest=farthest)
    assert not telling, "the time of these tells what is there"
