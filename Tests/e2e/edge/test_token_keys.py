"""Where the keys of tokens come from: sets with anything in them, servers that fail, keys that come and go."""

import asyncio
import json
import time

import pytest

from harness import configs
from harness.authority import Authority
from harness.http1 import exchange, fetch
from harness.keys import bearer
from harness.origins import HTTPOrigin
from harness.poll import poll
from harness.receiver import HANG, Answer, Receiver, flood
from harness.sse import Stream, events_target
from harness.templates import marked
from harness.tokens import ISS, Key, auth, good, issuer, key_set
from harness.waiting import eventually

TARGET = "/v1/state?topic=PUSH_RC&project=demo"


async def status(daemon, token):
    return (await fetch(daemon.edge, TARGET, headers=bearer(token))).status


def document(half, *issuers, **more):
    return configs.config(half, auth=auth(*issuers, allowedAddresses=["127.0.0.0/8"], **more))


async def settled(daemon, token, wanted):
    """The status once it is `wanted`."""
    assert await eventually(lambda: status(daemon, token), wanted, 10) == wanted


ODD = {
    "other kinds": [{"kty": "oct", "k": "A" * 43, "kid": "o"}, {"kty": "OKP", "crv": "X25519", "x": "A" * 43},
                    {"kty": "EC", "crv": "secp256k1", "x": "A" * 43, "y": "A" * 43},
                    {"kty": "RSA", "alg": "RSA-OAEP-256", "n": "A" * 342, "e": "AQAB"},
                    {"kty": "AKP", "alg": "ML-DSA-65", "pub": "AAAA"}, {"kty": "EC", "crv": "P-256"}, {}, 1, None, "x"],
    "not for signatures": [{**Key("ES256", "e").jwk, "use": "enc"}, {**Key("ES256", "f").jwk, "key_ops": ["sign"]},
                           {**Key("ES256", "g").jwk, "alg": "ES384"}, {**Key("ES256", "h").jwk, "kid": 5},
                           {**Key("ES256", "i").jwk, "x": "AAAA"}, {**Key("ES256", "j").jwk, "kid": "x" * 999}],
    "no kid": [Key("ES256", None).jwk],
}


@pytest.mark.parametrize("name", ODD)
async def test_a_good_key_works_beside_those_of_no_use(launch, tmp_path, name):
    key = Key()
    (tmp_path / "keys").write_bytes(key_set(*ODD[name], key))
    daemon = launch(configs.config(auth=auth(issuer(tmp_path / "keys"))))
    assert await status(daemon, key.token()) == 200
    assert await status(daemon, key.token(header={"alg": "ES256"})) == 401


async def test_weak_keys_and_names_that_two_keys_have_are_of_no_use(launch, tmp_path):
    good_key, twin, other = Key(), Key("ES256", "t"), Key("ES256", "t")
    weak = Key("RS256", "w", 1024)
    (tmp_path / "ec").write_bytes(key_set(twin, other, good_key, good_key))
    (tmp_path / "rsa").write_bytes(key_set(weak, Key("RS256", "r")))
    rsa = issuer(tmp_path / "rsa", "RS256", name="rsa", iss=ISS + "/rsa")
    daemon = launch(configs.config(auth=auth(issuer(tmp_path / "ec"), rsa)))
    assert await status(daemon, good_key.token()) == 200, "the same key twice is one"
    assert {await status(daemon, key.token()) for key in (twin, other)} == {401}
    assert await status(daemon, weak.token(good(iss=ISS + "/rsa"))) == 401


async def test_a_forged_token_spoils_nothing_where_keys_have_no_alg(launch, tmp_path):
    key = Key("RS256")
    (tmp_path / "keys").write_bytes(key_set(key))
    daemon = launch(configs.config(auth=auth(issuer(tmp_path / "keys", "RS256"))))
    for alg in ("RS512", "HS256", "none"):
        assert await status(daemon, key.token(header={"alg": alg, "kid": "k1", "typ": "JWT"})) == 401
    assert await status(daemon, key.token()) == 200


BAD = {
    "nothing": Answer(200), "10 MB": flood(10 << 20), "HTML": Answer(200, body=b"<html>"),
    "65 keys": Answer(200, body=json.dumps({"keys": [{}] * 65}).encode()), "hangs": HANG,
    "redirect": Answer(302, (("Location", "http://169.254.169.254/keys"),)), "500": Answer(500, body=b"x"),
    "drip": Answer(200, body=b"x" * 5000, drip=0.2),
}


@configs.one_half
@pytest.mark.parametrize("name", BAD)
async def test_without_keys_it_is_not_now_and_never_401(launch, half, tmp_path, name):
    authority = Authority(tmp_path)
    ca, key = str(tmp_path / "ca.pem"), Key()
    with Receiver(lambda _: BAD[name], tls=authority.server("127.0.0.1")) as server:
        daemon = launch(document(half, issuer(f"{server.url}/keys", caFile=ca)), half=half)
        while not server.arrivals:
            await asyncio.sleep(0.05)
        answer = await fetch(daemon.edge, TARGET, headers=bearer(key.token()))
        assert answer.status == 503 and answer.header("retry-after")
        assert (await fetch(daemon.control, "/status", headers=bearer(key.token()))).status == 503
        assert (await poll(daemon.edge, headers=bearer(key.token()))).status == 503
        request = f"GET {events_target()} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key.token()}\r\n\r\n"
        raw, end = await exchange(daemon.edge, request.encode())
        assert raw.startswith(b"HTTP/1.1 200") and b"retry: " in raw and b"event:" not in raw and end == "closed", raw
        assert await daemon.metric("stalecast_issuer_keys", issuer="test") == 0
        assert {arrival.path for arrival in server.arrivals} == {"/keys"}


async def test_observing_refuses_nobody_while_keys_are_missing(launch, half, tmp_path):
    daemon = launch(configs.config(half, auth=auth(issuer(tmp_path / "none"), mode="observe")), half=half)
    token = Key().token()
    assert (await poll(daemon.edge, wait="0s", headers=bearer(token))).status == 200
    stream = await Stream.open(daemon.edge, headers=bearer(token))
    await stream.synced()
    await stream.version_at_least(await daemon.publish(marked("x")))
    assert await status(daemon, token) == 200


async def test_who_sends_no_more_is_answered_all_the_same(launch, half, tmp_path):
    """A client may close its half when it has asked, also before its token was looked at."""
    key = Key()
    (tmp_path / "keys").write_bytes(key_set(key))
    daemon = launch(configs.config(half, auth=auth(issuer(tmp_path / "keys"))), half=half)
    for number in range(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.edge)
        writer.write(f"GET /v1/poll?topic=PUSH_RC&wait=0s HTTP/1.1\r\nHost: localhost\r\n"
                     f"X-API-Key: {key.token(good(sub=str(number)))}\r\n\r\n".encode())
        writer.write_eof()
        assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 200")
        writer.close()


@configs.one_half
@pytest.mark.limit(90)
async def test_keys_come_and_go_at_a_url(launch, half, tmp_path):
    authority = Authority(tmp_path)
    old = Key("ES256", "old")
    origin = HTTPOrigin()
    origin._tls = authority.server("127.0.0.1")
    origin.put(key_set(old))
    with origin:
        daemon = launch(document(half, issuer(f"{origin.url}/keys", caFile=str(tmp_path / "ca.pem"))), half=half)
        await settled(daemon, old.token(), 200)
        asked = len(origin.arrivals)
        began = time.monotonic()
        for number in range(300):
            text = Key("ES256", f"unknown{number % 50}").token()
            assert await status(daemon, text) in (401, 503)
        assert len(origin.arrivals) - asked <= 1 + (time.monotonic() - began) / 30, "unknown keys make us ask"
        origin.fault = Answer(500)
        assert await status(daemon, old.token(good(sub="later"))) == 200, "an outage takes nothing away"
        assert daemon.running


@configs.one_half
async def test_a_key_that_is_removed_ends_its_streams(launch, half, tmp_path):
    old, new = Key("ES256", "old"), Key("ES256", "new")
    path = tmp_path / "keys"
    path.write_bytes(key_set(old, new))
    daemon = launch(configs.config(half, auth=auth(issuer(path))), half=half)
    gone = await Stream.open(daemon.edge, project="demo", headers=bearer(old.token()))
    stays = await Stream.open(daemon.edge, project="demo", headers=bearer(new.token()))
    await gone.synced()
    await stays.synced()
    path.write_bytes(key_set(new))
    assert await gone.end(timeout=15) == "clean"
    assert [frame.json() for frame in gone.events if frame.name == "auth"] == [{"type": "revoked"}]
    await stays.version_at_least(await daemon.publish(marked("x")))
    assert await status(daemon, old.token()) == 401


@configs.one_half
async def test_a_reload_that_removes_the_issuer_ends_its_streams(launch, half, tmp_path):
    key = Key()
    (tmp_path / "keys").write_bytes(key_set(key))
    daemon = launch(configs.config(half, auth=auth(issuer(tmp_path / "keys"))), half=half)
    token = key.token()
    stream = await Stream.open(daemon.edge, project="demo", headers=bearer(token))
    await stream.synced()
    daemon.configure(configs.config(half, auth={"mode": "enforce"}))
    daemon.signal(1)
    assert await stream.end() == "clean"
    assert await status(daemon, token) == 401


async def test_the_address_guard_holds_for_key_sets(launch, tmp_path):
    key = Key()
    with Receiver() as server:
        daemon = launch(configs.config(auth=auth(issuer(f"https://127.0.0.1:{server.port}/keys"))))
        assert await eventually(lambda: daemon.metric("stalecast_issuer_keys_failing"), 1) == 1
        assert server.connections == 0
        assert await status(daemon, key.token()) == 503
