"""Who registers webhooks, or answers them, and means harm: what is refused, what it costs, what stays as it was."""

import asyncio
import json
import time

import pytest

from harness import configs, webhooks
from harness.daemon import LONG
from harness.figures import record
from harness.http1 import Broken, Connection
from harness.receiver import Answer, Receiver
from harness.templates import marked
from harness.webhooks import Refused, Webhooks, acknowledged

URLS = [
    "http://0x7f.1/", "http://[::ffff:127.0.0.1]/", "http://[fe80::1%25eth0]/", "http://[2606:4700::1%eth0]/",
    "http://a.example:65536/", "http://a.example:-1/", "http://a.example:80x/", "http://[::1]:80:80/", "http://[::1",
    "http://user@a.example/", "http://user:pw@a.example/", "http://:@a.example/", "http://@a.example/",
    "http://a.example\\@b.example/", "http://a.example#@b.example/", "http://bücher.example/", "http://ⓛocalhost/",
    "http://a.example/ü", "http://\u202ea.example/", "http://a.example/a b", "http://a.example/\t",
    "http://%00a.example/", "http://a.example/\r\nX: y",
    "http://*.example/", "http://a,b/", "http://[v1.a]/", "http://[1.2.3.4]/", "http:///",
    "http://a..example/", "http://.a.example/", "http://a.example../", "http://" + "a" * 64 + ".example/",
    "http://" + "a." * 127 + "a/", "http://1.2.3.4.5/", "http://4294967296/", "http://a.example.1/", "http://a.0x1/",
    "http:/a.example/", "http:a.example", "//a.example/", "javascript:alert(1)", "data:,x", "file:///etc/passwd",
    "unix:///run/x.sock", "http://a.example/" + "x" * 2048, "",
]


async def test_no_odd_url_is_registered(launch):
    hooks = Webhooks(launch(configs.config()))
    for url in URLS:
        with pytest.raises(Refused) as refused:
            await hooks.add(url)
        assert (refused.value.status, refused.value.field) == (400, "url"), f"{url!r}: {refused.value}"
    assert await hooks.list() == []


@pytest.mark.parametrize("port", [0, 22, 25])
async def test_a_port_that_is_never_called_is_refused_at_once(launch, port):
    hooks = Webhooks(launch(configs.config()))
    with pytest.raises(Refused) as refused:
        await hooks.add(f"http://a.example:{port}/", paused=True)
    assert refused.value.field == "url"


async def test_punycode_is_a_name_like_any_other(launch):
    hooks = Webhooks(launch(configs.config()))
    made = await hooks.add("https://xn--bcher-kva.example/", paused=True)
    assert made["url"] == "https://xn--bcher-kva.example/"


BODIES = {
    "not JSON": (b"\xff\xfe", 400), "nothing": (b"", 400), "null": (b"null", 400), "a list": (b"[]", 400),
    "deep": (b'{"headers":' + b'{"a":' * 9000 + b"1" + b"}" * 9001, 400), "deep list": (b"[" * 60000, 400),
    "twice": (b'{"url":"http://a.example/","url":"http://b.example/"}', 400),
    "two headers in two cases": (b'{"url":"http://a.example/","headers":{"X-A":"1","x-a":"2"}}', 400),
    "infinity": (b'{"url":"http://a.example/","limits":{"maxPerSecond":1e400}}', 400),
    "an age": (b'{"url":"http://a.example/","limits":{"timeout":"99999999999999999999s"}}', 400),
    "33 headers": (b'{"url":"http://a.example/","headers":{%s}}' % b",".join(b'"X-%d":""' % i for i in range(33)), 400),
    "a megabyte": (b'{"url":"' + b"x" * (1 << 20) + b'"}', 413), "50 MB": (b"[" * (50 << 20), 413),
}


async def test_bodies_made_to_hurt_are_refused_and_cost_nothing(launch):
    daemon = launch(configs.config())
    hooks = Webhooks(daemon)
    with daemon.growth_below(16 << 20):
        for name, (body, status) in BODIES.items():
            try:
                await hooks.call("POST", body=body)
                raise AssertionError(f"{name} was taken")
            except Refused as refused:
                assert refused.status == status, f"{name}: {refused}"
            except Broken:
                # It need not read to the end what it refuses.
                assert status == 413, name
        # Announced, and never sent.
        slow = [Connection(daemon.control) for _ in range(20)]
        head = [("Authorization", f"Bearer {daemon.token}"), ("Content-Length", str(1 << 40))]
        answers = await asyncio.gather(*(each.request("POST", hooks.base, head) for each in slow))
        assert {answer.status for answer in answers} == {413}
    assert await hooks.list() == [] and await daemon.ready() == 200


async def test_a_header_is_sent_as_it_was_given_and_adds_no_other(launch):
    """Also values that libcurl's own syntax of headers would read as something else."""
    given = {"X-Empty": "", "X-Tab": "a\tb", "X-Colon": "a: b; c", "X-Semicolon": ";", "Accept": "text/x",
             "X-At": "@/etc/passwd"}
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as receiver:
        plain = await hooks.add(f"{receiver.url}/plain")
        made = await hooks.add(f"{receiver.url}/given", headers=given)
        for each in (plain, made):
            assert (await hooks.act(each, "test"))["attempt"]["status"] == 204
        before, after = ({**arrival.headers} for arrival in receiver.arrivals)
    wanted = {name.lower(): value for name, value in given.items()}
    assert {name: after[name] for name in wanted} == wanted
    assert set(after) == set(before) | set(wanted)


@pytest.mark.parametrize("head", ["many", "long"])
async def test_an_answer_made_of_headers_costs_nothing(launch, head):
    lines = [f"X-{index}: {'y' * 100}" for index in range(200_000)] if head == "many" else ["X-A: " + "y" * (20 << 20)]
    answer = Answer(raw="\r\n".join(["HTTP/1.1 200 OK", *lines, "Content-Length: 0", "", ""]).encode(), then="close")
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver(lambda _: answer) as receiver, Receiver() as good:
        made = await hooks.add(receiver.url, limits={"timeout": "5s"})
        well = await hooks.add(good.url)
        with daemon.growth_below(8 << 20):
            version = await daemon.publish(marked("one"))
            await hooks.until(well, acknowledged(version))
            attempt = (await hooks.until_attempts(made, lambda found: found))[-1]
        assert attempt["outcome"] in ("2xx", "bad_answer", "no_connection", "reset", "other"), attempt


async def test_a_project_has_only_so_many_webhooks(launch):
    hooks = Webhooks(launch(configs.config(webhooks={"maxPerProject": 3})))
    made = [await hooks.add(f"https://h{index}.invalid/") for index in range(3)]
    with pytest.raises(Refused) as refused:
        await hooks.add("https://h4.invalid/")
    assert (refused.value.status, refused.value.word) == (429, "RESOURCE_EXHAUSTED")
    assert "webhooks.maxPerProject" in refused.value.message
    await hooks.remove(made[0])
    await hooks.add("https://h4.invalid/")
    assert len(await hooks.list()) == 3


@pytest.mark.limit(300)
@pytest.mark.skipif(not LONG, reason="most of a minute: STALECAST_LONG=1")
async def test_ten_thousand_registrations_are_a_load_and_no_more(launch):
    daemon = launch(configs.config())
    client = daemon.client()
    base = Webhooks(daemon).base
    begin = time.monotonic()
    for index in range(10_001):
        body = json.dumps({"url": f"https://h{index}.invalid/", "paused": index % 2 == 0}).encode()
        answer = await client.call("POST", base, body)
        assert answer.status == (200 if index < 10_000 else 429), answer
    seconds = time.monotonic() - begin
    assert daemon.stop() == 0
    start = daemon.start()
    record("webhooks_registered", seconds=seconds, restart_seconds=start, memory_mb=daemon.memory() / 2**20)
    assert start < 5 and daemon.memory() < 160 << 20
    seen, token = 0, ""
    while token is not None:
        page = await Webhooks(daemon).call("GET", f"?pageSize=1000&pageToken={token}")
        seen, token = seen + len(page["webhooks"]), page.get("nextPageToken")
    assert seen == 10_000
