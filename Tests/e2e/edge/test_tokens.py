"""Tokens of issuers (JWT): every way to make a bad one, at both listeners; and what a good one gets."""

import asyncio
import base64
import json
import time
from datetime import datetime

import pytest

from harness import configs
from harness.cluster import FETCH, INSTANCE
from harness.http1 import fetch
from harness.keys import bearer
from harness.poll import poll
from harness.receiver import Receiver
from harness.sse import Stream, events_target
from harness.templates import marked
from harness.tokens import AUD, GRANT, ISS, Key, auth, b64, good, issuer, key_set

TARGET = "/v1/state?topic=PUSH_RC&project=demo"


class Issuers:
    """Three issuers of three algorithms, and keys of no issuer."""

    def __init__(self, directory):
        self.ec, self.ed, self.rsa = Key("ES256"), Key("EdDSA", "k2"), Key("RS256", "k3")
        self.secret, self.foreign, self.other = Key("HS256", "k4"), Key("ES256"), Key("ES256", "o1")
        files = {}
        for name, keys in {"ec": (self.ec,), "ed": (self.ed,), "rsa": (self.rsa,), "secret": (self.secret,),
                           "other": (self.other,)}.items():
            files[name] = directory / f"{name}.json"
            files[name].write_bytes(key_set(*keys))
        self.entries = [
            issuer(files["ec"]), issuer(files["ed"], "EdDSA", name="ed", iss=ISS + "/ed"),
            issuer(files["rsa"], "RS256", name="rsa", iss=ISS + "/rsa"),
            issuer(files["secret"], "HS256", name="secret", iss=ISS + "/secret"),
            issuer(files["other"], name="other", iss=ISS + "/other"),
        ]

    def launch(self, launch, half, mode="enforce", **more):
        return launch(configs.config(half, auth=auth(*self.entries, mode=mode), **more), half=half)


@pytest.fixture
def issuers(tmp_path):
    return Issuers(tmp_path)


# Rows of vectors: a function of the issuers (and the URL of a listener that must see nothing) to a list of tokens.

def spelled(alg, i):
    return {"alg": alg, "typ": "JWT", "kid": "k1"}


def algorithms(i, url):
    unsigned = ".".join([b64(json.dumps(spelled("none", i)).encode()), b64(json.dumps(good()).encode()), ""])
    tokens = [unsigned, unsigned + "AA"]
    tokens += [i.ec.token(header=spelled(alg, i)) for alg in ("none", "None", "nOnE", "ES256 ", "es256", "", 256, None)]
    tokens.append(i.ec.token(header={"typ": "JWT", "kid": "k1"}))
    for text in (i.rsa.pem(), key_set(i.rsa), json.dumps(i.rsa.jwk).encode()):
        forged = Key("HS256", "k3")
        forged.private = text
        tokens += [forged.token(good(iss=ISS + "/rsa"), {"alg": alg, "kid": "k3"}) for alg in ("HS256", "RS256")]
    for alg in ("RS512", "PS256"):
        key = Key.__new__(Key)
        key.alg, key.kid, key.private = alg, "k3", i.rsa.private
        tokens += [key.token(good(iss=ISS + "/rsa")), key.token(good(iss=ISS + "/rsa"), {"alg": "RS256", "kid": "k3"})]
    return tokens


def headers(i, url):
    base = {"alg": "ES256", "typ": "JWT", "kid": "k1"}
    more = [{"crit": ["exp"]}, {"crit": []}, {"crit": ["b64"], "b64": False}, {"typ": "JWE"}, {"typ": "at+jwt+x"},
            {"typ": "logout+jwt"}, {"typ": 5}, {"typ": None}]
    tokens = [i.ec.token(header={**base, **change}) for change in more]
    for name, value in (("jwk", i.foreign.jwk), ("jku", url), ("x5u", url), ("x5c", ["AAAA"])):
        tokens += [i.foreign.token(header={**base, name: value}), i.ec.token(header={**base, name: value})]
    return tokens


def kids(i, url):
    bad = ["nope", 1, None, ["k1"], "../k1", "k1\0", "k1 ", "K1", "x" * 4096, "o1", "", "' or 1=1", "k1/../k1"]
    tokens = [i.ec.token(header={"alg": "ES256", "typ": "JWT", "kid": kid}) for kid in bad]
    tokens.append(i.ec.token(header={"alg": "ES256", "typ": "JWT"}))
    # A key of another issuer, by its own kid and by ours.
    tokens += [i.other.token(), i.other.token(header={"alg": "ES256", "kid": "k1"})]
    return tokens


def issued(i, url):
    bad = [[ISS], ISS + "/", ISS.upper(), ISS.replace("https", "http"), " " + ISS, ISS + "\0", "", None, 1,
           ISS + "/other"]
    return [i.ec.token(good(iss=iss)) for iss in bad] + [i.ec.token(good(without="iss"))]


def audiences(i, url):
    bad = [[], "", "stale", AUD + "2", AUD.upper(), [AUD + "/"], {"a": AUD}, [AUD, 1], [[AUD]], None, 1,
           [f"a{n}" for n in range(900)]]
    tokens = [i.ec.token(good(aud=aud)) for aud in bad] + [i.ec.token(good(without=("aud",)))]
    return tokens + [i.ec.token(good(aud=["a"] * 9999 + [AUD]))]


def times(i, url):
    now = int(time.time())
    bad = [{"exp": exp} for exp in (
        now - 1, now - 3600, now, 0, -1, str(now + 600), now + 600.5, f"{now}", 2**63, 2**64, -(2**63), True, None,
        [now + 600])]
    bad += [{"exp": now + 90_000}, {"iat": now - 90_000}, {"iat": now + 120}, {"nbf": now + 120}, {"nbf": str(now)},
            {"iat": "now"}, {"iat": -5}, {"nbf": 2**63}]
    tokens = [i.ec.token(good(**change)) for change in bad] + [i.ec.token(good(without=("exp",)))]
    raw = json.dumps(good()).replace(f'"exp": {good()["exp"]}', '"exp": %s')
    return tokens + [i.ec.token((raw % text).encode()) for text in ("1e400", "1e10", f"{now + 60}.0", f"+{now}")]


def documents(i, url):
    text = json.dumps(good())
    bad = [text[:-1] + ',"exp":99999999999}', text[:-1] + ',"\\u0065xp":1}', text[:-1] + ',"aud":"x"}',
           text + "x", "[]", '"text"', "1", "", "{", text[:-1] + ',"a":' + "[" * 1000 + "]" * 1000 + "}",
           "[" * 3000 + "]" * 3000, json.dumps(good(a="x" * 1_000_000))[:11_000]]
    tokens = [i.ec.token(claims.encode()) for claims in bad]
    tokens.append(i.ec.token(text.encode()[:-1] + b',"a":"\xff"}'))
    head = b'{"alg":"ES256","kid":"k1","alg":"none"}'
    tokens += [i.ec.token(header=head), i.ec.token(header=b"[]"), i.ec.token(header=b"[" * 1000)]
    tokens += [i.ec.token(good(a="x" * 8000)), i.ec.token(good(without=("sub",))), i.ec.token(good(sub="")),
               i.ec.token(good(sub=1)), i.ec.token(good(sub="a\nb")), i.ec.token(good(sub="x" * 300))]
    return tokens


def signatures(i, url):
    token = i.ec.token()
    head, body, signature = token.split(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other_bits = signature[:-1] + last[last.index(signature[-1]) ^ 1]
    r, s = raw[:32], raw[32:]
    der = b"\x30\x44\x02\x20" + r + b"\x02\x20" + s
    words = [signature[:-1], signature[:-4], signature + "=", signature + "==", other_bits, "", b64(der),
             b64(bytes(64)), b64(raw + b"\0"), b64(raw[:63]), b64(b"\0" * 32 + s), b64(b"\xff" * 64)]
    if "-" in signature or "_" in signature:
        words.append(signature.replace("-", "+").replace("_", "/"))
    tokens = [f"{head}.{body}.{word}" for word in words] + [f"{head}.{body}", f"{head}.{body}.{signature}.x", f"{head}"]
    tokens += [i.ed.token(good(iss=ISS + "/ed"), signature=change) for change in (
        lambda x: x[:63], lambda x: x + b"\0", lambda x: bytes(64), lambda x: x[:32] + bytes(32))]
    tokens += [i.rsa.token(good(iss=ISS + "/rsa"), signature=change) for change in (
        lambda x: x[:255], lambda x: x + b"\0", lambda x: b"\0" + x, lambda x: bytes(256), lambda x: b"\xff" * 256)]
    tokens += [i.secret.token(good(iss=ISS + "/secret"), signature=change) for change in (
        lambda x: x[:16], lambda x: b"", lambda x: x + b"\0", lambda x: bytes(32))]
    return tokens


def mixed(i, url):
    one, two = i.ec.token(), i.ec.token(good(sub="user-2"))
    swapped = [one.rpartition(".")[0] + "." + two.rpartition(".")[2]]
    admin = b64(json.dumps(good(sub="admin")).encode())
    swapped.append(".".join([one.split(".")[0], admin, one.split(".")[2]]))
    return [*swapped, i.foreign.token(), i.foreign.token(header={"alg": "ES256", "kid": "k1"}),
            i.other.token(good(iss=ISS + "/other", aud="else"))]


def details(i, url):
    bad = [{**GRANT, "actions": ["everything"]}, {**GRANT, "projects": []}, {**GRANT, "projects": "demo"},
           {**GRANT, "projects": None}, {**GRANT, "topics": None},
           {**GRANT, "role": "root"}, {**GRANT, "namspaces": ["x"]}, {**GRANT, "topics": ["a b"]}, "text", 1,
           {"actions": ["watch"]}, {"type": 5, **{"actions": ["watch"]}}, {**GRANT, "actions": None}]
    tokens = [i.ec.token(good(authorization_details=[GRANT, entry])) for entry in bad]
    tokens += [i.ec.token(good(authorization_details=entry)) for entry in (GRANT, "x", [GRANT] * 33)]
    return tokens + [i.ec.token(good(stalecast=entry)) for entry in (GRANT, [{"role": "root"}], "x")]


ROWS = {row.__name__: row for row in (
    algorithms, headers, kids, issued, audiences, times, documents, signatures, mixed, details)}


def good_tokens(i):
    return [i.ec.token(), i.ec.token(good(aud=["x", "other"])), i.ec.token(header={"alg": "ES256", "kid": "k1"}),
            i.ec.token(header={"alg": "ES256", "typ": "at+JWT", "kid": "k1"}),
            i.ec.token(good(nbf=int(time.time()) + 20, iat=int(time.time()) + 20)),
            i.ed.token(good(iss=ISS + "/ed")), i.ed.token(good(iss=ISS + "/ed"), {"alg": "Ed25519", "kid": "k2"}),
            i.rsa.token(good(iss=ISS + "/rsa")), i.secret.token(good(iss=ISS + "/secret")),
            i.ec.token(good(authorization_details=[{"type": "https://other.example", "x": 1}, GRANT])),
            i.ec.token(good(without=("authorization_details",), stalecast=[{"actions": ["watch"]}]))]


@configs.one_half
@pytest.mark.limit(120)
async def test_no_bad_token_is_taken_and_all_hear_the_same(launch, half, issuers):
    daemon = issuers.launch(launch, half)
    await daemon.publish(marked("x"))
    bodies, tried = {"edge": set(), "control": set()}, {}
    with Receiver() as spy:
        for name, row in ROWS.items():
            tokens = row(issuers, spy.url)
            taken = 0
            for token in tokens:
                edge = await fetch(daemon.edge, TARGET, headers=bearer(token))
                control = await fetch(daemon.control, "/v1/projects/demo/remoteConfig", headers=bearer(token))
                # 431: what is too long for a head was not read.
                taken += not {edge.status, control.status} <= {401, 431}
                if edge.status == 401:
                    bodies["edge"].add(edge.body)
                    bodies["control"].add(control.body)
                assert b"PUSH_RC" not in edge.body and b"etag" not in edge.body
            tried[name] = (len(tokens), taken)
        assert spy.connections == 0, "a URL in a token was followed"
    print("vectors tried and accepted:", tried, "in all", sum(count for count, _ in tried.values()))
    assert all(taken == 0 for _, taken in tried.values()), tried
    assert sum(count for count, _ in tried.values()) > 150
    assert len(bodies["edge"]) == 1 and len(bodies["control"]) == 1, bodies
    for token in good_tokens(issuers):
        assert (await fetch(daemon.edge, TARGET, headers=bearer(token))).status == 200, token


async def test_a_token_hears_polls_and_fetches_what_it_is_granted(launch, half, issuers):
    projects = [{"id": "demo", "number": 1}, {"id": "shop", "number": 2}]
    daemon = issuers.launch(launch, half, projects=projects)
    token = issuers.ec.token()
    stream = await Stream.open(daemon.edge, project="demo", headers=bearer(token))
    await stream.synced()
    held = asyncio.create_task(poll(daemon.edge, project="demo", headers=bearer(token), wait="20s"))
    await asyncio.sleep(0.2)
    version = await daemon.publish(marked("x"))
    await stream.version_at_least(version)
    assert (await held).json()["messages"]
    for _ in range(2):
        again = await Stream.open(daemon.edge, project="demo", have=0, headers=bearer(token))
        await again.version_at_least(version)
        again.close()
    assert (await poll(daemon.edge, project="shop", headers=bearer(token), wait="0s")).status == 403
    assert await daemon.metric("stalecast_tokens_verified_total") == 1, "then it is known"


@configs.one_half
async def test_a_token_beside_firebases_own_credential_is_looked_at(launch, half, issuers):
    daemon = issuers.launch(launch, half)
    await daemon.publish(marked("x"))
    fis = [("Authorization", "FIS_v2 x"), ("Content-Type", "application/json")]
    for token, wanted in [("a.b.c", 401), (issuers.foreign.token(), 401), (issuers.ec.token(), 200)]:
        answer = await fetch(daemon.edge, FETCH, "POST", fis + [("X-API-Key", token)], INSTANCE)
        assert answer.status == wanted, (token, answer)


@configs.one_half
async def test_where_only_observed_a_bad_token_is_served_and_counted(launch, half, issuers):
    daemon = issuers.launch(launch, half, "observe")
    for token in (issuers.foreign.token(), issuers.ec.token()):
        assert (await fetch(daemon.edge, TARGET, headers=bearer(token))).status == 200
        stream = await Stream.open(daemon.edge, project="demo", headers=bearer(token))
        await stream.synced()
        stream.close()
    counted = await daemon.metric("stalecast_auth_refusals_total", reason="bad_signature", enforced="false")
    assert counted == 2


@pytest.mark.parametrize("carrier", ["sse", "poll", "firebase"])
async def test_expiry_ends_what_is_open_and_not_before(launch, half, issuers, carrier):
    daemon = issuers.launch(launch, half)
    lasting = bearer(issuers.ec.token())
    timeout = asyncio.create_task(poll(daemon.edge, project="demo", headers=lasting, wait="14s"))
    end = int(time.time()) + 4
    text = bearer(issuers.ec.token(good(exp=end)))
    if carrier == "sse":
        stream = await Stream.open(daemon.edge, project="demo", headers=text)
        assert await stream.end() == "clean"
        told = [frame for frame in stream.events if frame.name == "auth"]
        assert [frame.json()["type"] for frame in told] == ["expiring", "expired"]
        assert datetime.fromisoformat(told[0].json()["expiresAt"]).timestamp() == end
        assert 0 < told[0].json()["inMs"] <= 500 and told[0].at < told[1].at - 0.1
    elif carrier == "poll":
        assert (await poll(daemon.edge, project="demo", headers=text, wait="30s")).json()["messages"] == []
    else:
        await fetch(daemon.edge, "/v1/projects/demo/namespaces/firebase:streamFetchInvalidations", "POST", text,
                    b'{"lastKnownVersionNumber":"9"}')
    assert time.time() - end > -0.2 and not timeout.done()
    timeout.cancel()
    assert (await fetch(daemon.edge, TARGET, headers=text)).status == 401
