"""Grants at Edge (G13): for every pair of key and scope without a grant no byte, live, resumed, polled, in the state,
fetched or in errors; ends by expiry and revocation; observe; credentials in every place."""

import asyncio
import json
from datetime import datetime, timedelta, timezone

import pytest

from harness import configs
from harness.cli import TOKEN, Cli, stalecast
from harness.http1 import fetch
from harness.keys import bearer, change_key, make_key
from harness.poll import poll, poll_target
from harness.sse import Stream, events_target
from harness.templates import marked

PROJECTS = [{"id": "demo", "number": 1}, {"id": "shop", "number": 2}]
TOPICS = [configs.topic("SHARED", scopes=("demo/firebase", "shop/firebase", "shop/firebase-server")),
          configs.topic("ONLY_SHOP", scopes=("shop/firebase",))]
INSTANCE = json.dumps({"appId": "1:1:web:1", "appInstanceId": "cAAAAAAAAAAAAAAAAAAAAA", "appInstanceIdToken": "t",
                       "lastKnownVersionNumber": "1"}).encode()
SCOPES = [("demo", "firebase"), ("shop", "firebase"), ("shop", "firebase-server")]


def configuration(half, mode="enforce", **auth):
    return configs.config(half, projects=PROJECTS, topics=TOPICS, auth={"mode": mode, **auth})


@pytest.fixture
def guarded(launch, half):
    return launch(configuration(half), half=half)


def watch(**where):
    return {"actions": ["watch", "fetch"], **where}


async def publish(daemon, project, namespace="firebase", value="x"):
    client = daemon.client(project=project, namespace=namespace)
    version = await client.publish(marked(value))
    client.close()
    return version


@configs.one_half
async def test_an_audience_is_that_of_its_namespace(launch, half):
    daemon = launch(configuration(half, mode="off"), half=half)
    _, text = await make_key(daemon, {"role": "viewer", "projects": ["shop"], "namespaces": ["firebase"]})

    async def heard():
        answer = await fetch(daemon.control, "/v1/projects/shop/namespaces/firebase/remoteConfig/audience?topic=SHARED",
                             headers=bearer(text))
        assert answer.status == 200, answer
        return answer.json()["streams"], answer.json()["topics"]

    streams = [await Stream.open(daemon.edge, ["SHARED"], project="shop", **where)
               for where in ({"namespace": "firebase-server"}, {"namespace": "firebase"}, {})]
    for stream in streams:
        await stream.synced()
    assert await heard() == (2, [{"name": "SHARED", "streams": 2, "polls": 0}]), "who hears of both hears of this one"
    topics = (await daemon.ask_control("/v1/projects/shop/topics")).json()["topics"]
    assert {topic["name"]: topic["subscribers"]["sse"] for topic in topics}["SHARED"] == 3
    for stream in streams:
        stream.close()


@configs.one_half
async def test_over_a_cap_nobody_hears_a_version_without_the_key(launch, half):
    daemon = launch(configs.config(half, edge={"maxConnectionsPerAddress": 1, "apiKeys": ["in-all-apps"]}), half=half)
    await publish(daemon, "demo")
    key = [("X-Goog-Api-Key", "in-all-apps")]
    stream = await Stream.open(daemon.edge, headers=key)
    await stream.synced()
    target = "/v1/projects/demo/namespaces/firebase:streamFetchInvalidations"
    without = await fetch(daemon.edge, target, "POST", body=INSTANCE)
    assert without.status == 503 and b"latestTemplateVersionNumber" not in without.body, without
    within = await fetch(daemon.edge, target, "POST", key, INSTANCE)
    assert within.status == 200 and b'"latestTemplateVersionNumber"' in within.body, within
    stream.close()


GRANTS = {
    "demo": [watch(projects=["demo"])],
    "shop": [watch(projects=["shop"])],
    "shop-client": [watch(projects=["shop"], namespaces=["firebase"])],
    "shop-topic": [watch(projects=["shop"], topics=["ONLY_*"])],
    "both": [watch(projects=["demo"]), watch(projects=["sh?p"])],
    "fetch-only": [{"actions": ["fetch"]}],
    "operator-elsewhere": [{"role": "operator", "projects": ["nowhere"]}],
}


def permitted(name):
    """The (project, namespace, topic) that a key of GRANTS may hear."""
    everything = {(p, n, "SHARED") for p, n in SCOPES} | {("shop", "firebase", "ONLY_SHOP")}
    everything |= {(p, "firebase", "PUSH_RC") for p in ("demo", "shop")}
    return {
        "demo": {entry for entry in everything if entry[0] == "demo"},
        "shop": {entry for entry in everything if entry[0] == "shop"},
        "shop-client": {entry for entry in everything if entry[:2] == ("shop", "firebase")},
        "shop-topic": {("shop", "firebase", "ONLY_SHOP")},
        "both": everything,
    }.get(name, set())


def heard(messages):
    return {(m["project"], m["namespace"], m["topic"]) for m in messages if "topic" in m}


NAMES = ("SHARED", "PUSH_RC", "ONLY_SHOP")


@pytest.mark.limit(120)
@pytest.mark.parametrize("name", GRANTS)
async def test_every_key_hears_what_it_is_granted_and_not_a_byte_more(guarded, name):
    _, text = await make_key(guarded, *GRANTS[name])
    for project, namespace in SCOPES:
        await publish(guarded, project, namespace, "first")
    for project in ("demo", "shop"):
        wanted = {entry for entry in permitted(name) if entry[0] == project}
        number = str(1 + (project == "shop"))
        for spelled in (project, number):
            await one_project(guarded, text, spelled, wanted, foreign("shop" if project == "demo" else "demo", wanted))


def foreign(other, wanted):
    """What must not be in any answer: the other project, and namespaces without a grant."""
    words = {f'"{other}"', f"etag-{2 if other == 'shop' else 1}-"}
    if not any(namespace == "firebase-server" for _, namespace, _ in wanted):
        words.add("firebase-server")
    return words


async def one_project(daemon, text, project, wanted, words):
    resumed = await poll(daemon.edge, NAMES, project=project, have=0, headers=bearer(text))
    state = await fetch(daemon.edge, events_target(NAMES, path="/v1/state", project=project), headers=bearer(text))
    stream = await Stream.open(daemon.edge, NAMES, project=project, have=0, headers=bearer(text))
    answers = [resumed, state]
    if not wanted:
        assert {answer.status for answer in answers} | {stream.head.status} <= {403, 404}, answers
        for answer in answers:
            assert not any(word.encode() in answer.body for word in words), answer
        return stream.close()
    assert heard(resumed.json()["messages"]) == wanted
    assert {(s["project"], s["namespace"], s["topic"]) for s in state.json()["state"]} == wanted
    held = asyncio.create_task(poll(daemon.edge, NAMES, project=project, headers=bearer(text), wait="20s",
                                    cursor=state.json()["cursor"]))
    await stream.synced()
    await asyncio.sleep(0.2)
    for other in SCOPES:
        await publish(daemon, *other, value="live")
    last = await fetch(daemon.edge, events_target(NAMES, path="/v1/state", project=project), headers=bearer(text))
    newest = {(s["namespace"], s["topic"]): int(s["latestTemplateVersionNumber"]) for s in last.json()["state"]}

    def complete(s):
        got = {}
        for frame in s.messages:
            message = frame.json()
            got[message["namespace"], message["topic"]] = int(message["latestTemplateVersionNumber"])
        return got == newest

    await stream.until(complete, what="the newest of everything that is granted")
    assert heard(frame.json() for frame in stream.messages) == wanted
    polled = await asyncio.wait_for(held, 20)
    assert heard(polled.json()["messages"]) <= wanted and polled.json()["messages"]
    for body in (stream.raw, polled.body, resumed.body, state.body):
        assert not any(word.encode() in body for word in words), body
    stream.close()


@configs.one_half
async def test_a_name_without_a_grant_is_as_one_that_is_not_there(guarded):
    await publish(guarded, "shop")
    _, text = await make_key(guarded, watch(projects=["demo"], topics=["PUSH_*"]))

    async def answer(path, **query):
        target = events_target(query.pop("topics"), path=path, **query)
        found = await fetch(guarded.edge, target, headers=bearer(text))
        return found.status, found.body

    for path in ("/v1/poll", "/v1/state"):
        assert len({await answer(path, topics=[name], project="demo") for name in ("SHARED", "NOPE")}) == 1
        assert len({await answer(path, topics=["PUSH_RC"], project=name) for name in ("shop", "2", "nope", "9")}) == 1
        assert len({await answer(path, topics=["PUSH_NOPE", "PUSH_RC_SERVER"][i:], project="demo",
                                 namespace="firebase") for i in (0, 1)}) == 1
    bodies = {(await fetch(guarded.edge, f"/v1/projects/{name}/namespaces/firebase:fetch", "POST",
                           bearer(text), INSTANCE)).body for name in ("shop", "2", "nope", "9")}
    assert len(bodies) == 1, "nor does a fetch tell"
    mixed = await poll(guarded.edge, ("PUSH_RC", "SHARED", "NOPE"), project="demo", headers=bearer(text), wait="0s",
                       have=0)
    assert mixed.status == 200 and set(mixed.json()["unknownTopics"]) == {"SHARED", "NOPE"}


@configs.one_half
@pytest.mark.parametrize("spelling", ["%50USH_RC", "PUSH%5FRC"])
async def test_an_encoded_name_gets_the_verdict_of_the_decoded_one(guarded, spelling):
    _, text = await make_key(guarded, watch(projects=["demo"], topics=["PUSH_RC"]))
    _, none = await make_key(guarded, watch(projects=["demo"], topics=["OTHER"]))
    target = f"/v1/state?topic={spelling}&project=demo"
    assert (await fetch(guarded.edge, target, headers=bearer(text))).status == 200
    assert (await fetch(guarded.edge, target, headers=bearer(none))).status == 403
    guarded.stop()
    assert "/v1/state demo PUSH_RC" in guarded.log_text() and "/v1/poll" not in guarded.log_text()


@configs.one_half
@pytest.mark.parametrize("topic", ["%2550USH_RC", "PUSH_RC%00", "PUSH_RC%20", "%EF%BC%B0USH_RC", "push_rc",
                                   "firebase%2F..", "scope%3Ademo%2Ffirebase"])
async def test_what_only_looks_like_the_name_is_not_it(guarded, topic):
    _, text = await make_key(guarded, watch(projects=["demo"], topics=["PUSH_RC"]))
    answer = await fetch(guarded.edge, f"/v1/state?topic={topic}&project=demo", headers=bearer(text))
    assert answer.status in (400, 403)


@configs.one_half
async def test_fetches_and_firebase_streams_ask_for_their_grant(guarded):
    await publish(guarded, "demo")
    _, fetches = await make_key(guarded, {"actions": ["fetch"], "projects": ["demo"]}, kind="publishable")
    _, watches = await make_key(guarded, {"actions": ["watch"], "projects": ["demo"]}, kind="publishable")
    _, topic = await make_key(guarded, {"actions": ["watch"], "projects": ["demo"], "topics": ["PUSH_RC"]})

    async def post(text, verb, project="demo", carrier="header"):
        headers = [("X-Goog-Api-Key", text)] if carrier == "header" and text else []
        query = f"?key={text}" if carrier == "query" else ""
        path = f"/v1/projects/{project}/namespaces/firebase:{verb}{query}"
        return await fetch(guarded.edge, path, "POST", headers, INSTANCE)

    for carrier in ("header", "query"):
        assert (await post(fetches, "fetch", carrier=carrier)).status == 200
    assert (await post(fetches, "fetch", project="shop")).status == 403
    assert (await post(watches, "fetch")).status == 403
    assert (await post(fetches, "streamFetchInvalidations")).status == 403
    assert (await post(topic, "streamFetchInvalidations")).status == 403, "it tells of everything in the scope"
    assert (await post("", "fetch")).status == 401
    created = await fetch(guarded.edge, "/v1/projects/demo/installations", "POST", [("X-Goog-Api-Key", fetches)],
                          b'{"fid":"cAAAAAAAAAAAAAAAAAAAAA","appId":"1:1:web:1"}')
    assert created.status == 200
    assert (await fetch(guarded.edge, "/v1/projects/shop/installations", "POST", [("X-Goog-Api-Key", fetches)],
                        b"{}")).status == 403


@configs.one_half
async def test_who_is_not_known_hears_one_sentence_with_the_right_header(guarded):
    key, revoked = await make_key(guarded, watch())
    await change_key(guarded, key, "revoke")
    _, secret = await make_key(guarded, watch())
    target = events_target(project="demo")
    answers = [await fetch(guarded.edge, target, headers=headers) for headers in (
        bearer(revoked), bearer(secret + "x"), bearer("stc_s_a_b"), [("Authorization", "Basic " + secret)],
        [("X-API-Key", "nonsense")], bearer(guarded.token))]
    answers.append(await fetch(guarded.edge, target + f"&key={secret}"))
    nobody = await fetch(guarded.edge, target)
    assert {answer.status for answer in [*answers, nobody]} == {401}
    assert len({answer.body for answer in [*answers, nobody]}) == 1
    assert {answer.header("www-authenticate") for answer in answers} == {'Bearer error="invalid_token"'}
    _, none = await make_key(guarded, {"role": "viewer"})
    forbidden = await fetch(guarded.edge, target, headers=bearer(none))
    assert forbidden.status == 403 and forbidden.header("www-authenticate") == 'Bearer error="insufficient_scope"'
    both = await fetch(guarded.edge, target, headers=[*bearer(secret), ("X-API-Key", none)])
    assert both.status == 400
    assert (await fetch(guarded.edge, target, headers=bearer(secret) + bearer(secret))).status == 400
    for reason, count in (("revoked", 1), ("typo", 2), ("malformed", 1), ("leaked", 1), ("missing", 1),
                          ("not_granted", 1), ("ambiguous", 2)):
        assert await guarded.metric("stalecast_auth_refusals_total", reason=reason, listener="edge") == count, reason


async def test_revocation_ends_streams_and_polls_at_once(guarded):
    key, text = await make_key(guarded, watch(projects=["demo"]))
    _, other = await make_key(guarded, watch(projects=["demo"]))
    stream = await Stream.open(guarded.edge, project="demo", headers=bearer(text))
    several = await Stream.open(guarded.edge, ("PUSH_RC", "SHARED"), project="demo", headers=bearer(text))
    stays = await Stream.open(guarded.edge, project="demo", headers=bearer(other))
    for opened in (stream, several, stays):
        await opened.synced()
    held = asyncio.create_task(poll(guarded.edge, project="demo", headers=bearer(text), wait="30s"))
    timeout = asyncio.create_task(poll(guarded.edge, project="demo", headers=bearer(other), wait="10s"))
    await asyncio.sleep(0.2)
    assert (await change_key(guarded, key, "revoke")).status == 200
    for ended in (stream, several):
        assert await ended.end() == "clean"
        assert [frame.json() for frame in ended.events if frame.name == "auth"] == [{"type": "revoked"}]
        assert ended.frames[-1].kind == "retry"
    assert (await held).json()["messages"] == []
    assert not timeout.done(), "long before its own end"
    version = await publish(guarded, "demo")
    assert (await timeout).json()["messages"]
    await stays.version_at_least(version)
    assert (await fetch(guarded.edge, events_target(project="demo"), headers=bearer(text))).status == 401


async def test_expiry_ends_streams_and_polls_and_not_before(guarded):
    _, other = await make_key(guarded, watch(projects=["demo"]))
    timeout = asyncio.create_task(poll(guarded.edge, project="demo", headers=bearer(other), wait="12s"))
    end = datetime.now(timezone.utc) + timedelta(seconds=3)
    _, text = await make_key(guarded, watch(projects=["demo"]), expires=end.isoformat().replace("+00:00", "Z"))
    stream = await Stream.open(guarded.edge, project="demo", headers=bearer(text))
    held = asyncio.create_task(poll(guarded.edge, project="demo", headers=bearer(text), wait="30s"))
    assert await stream.end() == "clean"
    late = (datetime.now(timezone.utc) - end).total_seconds()
    assert [frame.json()["type"] for frame in stream.events if frame.name == "auth"] == ["expiring", "expired"]
    assert (await held).json()["messages"] == []
    assert late > -0.1 and not timeout.done(), f"ended {late:.2f} s after the credential"
    timeout.cancel()
    assert (await fetch(guarded.edge, poll_target(project="demo"), headers=bearer(text))).status == 401


@configs.one_half
async def test_anonymous_callers_have_the_grants_of_the_configuration(launch, half):
    anonymous = [{"actions": ["watch"], "projects": ["demo"], "topics": ["PUSH_RC"]}]
    daemon = launch(configuration(half, anonymous=anonymous), half=half)
    stream = await Stream.open(daemon.edge, project="demo")
    await stream.synced()
    assert (await poll(daemon.edge, project="shop")).status == 403
    assert (await poll(daemon.edge, ("SHARED",), project="demo")).status == 403
    daemon.configure(configuration(half))
    daemon.signal(1)
    assert await stream.end() == "clean", "a reload takes the grant away"
    assert any(frame.name == "auth" for frame in stream.events)


async def test_observe_serves_everybody_and_counts_who_would_be_refused(launch, half):
    daemon = launch(configuration(half, "observe"), half=half)
    await publish(daemon, "demo")
    stream = await Stream.open(daemon.edge, project="demo", headers=bearer("nonsense"))
    await stream.synced()
    _, text = await make_key(daemon, watch(projects=["demo"]))
    good = await Stream.open(daemon.edge, project="demo", headers=bearer(text))
    await good.synced()
    assert (await poll(daemon.edge, project="demo", have=0)).status == 200
    assert (await fetch(daemon.edge, "/v1/projects/demo/namespaces/firebase:fetch", "POST", (),
                        INSTANCE)).status == 200
    counts = {reason: await daemon.metric("stalecast_auth_refusals_total", reason=reason, enforced="false")
              for reason in ("unknown", "missing")}
    assert counts == {"unknown": 1, "missing": 2}
    assert "\naccess   observe, 3 requests would have been refused\n" in stalecast("status", "--data", daemon.data)
    daemon.configure(configuration(half, "enforce"))
    daemon.signal(1)
    assert await stream.end() == "clean", "from then on grants decide"
    await publish(daemon, "demo")
    await good.version_at_least(2)
    assert not any(frame.name == "auth" for frame in good.events), "a good key is not revoked by it"


@configs.one_half
async def test_off_is_as_it_was(launch, half):
    daemon = launch(configs.config(half, edge={"apiKeys": ["AIza-ours"]}), half=half)
    for headers, status in (((), 403), ([("X-Goog-Api-Key", "AIza-ours")], 200), (bearer("nonsense"), 403),
                            ([("X-Goog-Api-Key", "AIza-ours"), *bearer("nonsense")], 200)):
        assert (await fetch(daemon.edge, "/v1/state?topic=PUSH_RC", headers=headers)).status == status
    assert (await fetch(daemon.edge, "/v1/state?topic=PUSH_RC&key=AIza-ours")).status == 200


@configs.one_half
async def test_plain_api_keys_hold_where_grants_decide(launch, half):
    daemon = launch(configs.config(half, edge={"apiKeys": ["AIza-ours"]}, auth={"mode": "enforce"}), half=half)
    assert (await fetch(daemon.edge, "/v1/state?topic=PUSH_RC&key=AIza-ours")).status == 200
    assert (await fetch(daemon.edge, "/v1/state?topic=PUSH_RC&key=AIza-other")).status == 401
    assert json.loads((await fetch(daemon.edge, "/v1/state?topic=PUSH_RC")).body)["error"]["code"] == 401


@configs.one_half
async def test_the_command_line_shows_its_key(guarded):
    cli = Cli(guarded)
    _, text = await make_key(guarded, watch(projects=["demo"]))
    key = cli.file(text.encode(), "app.key")
    refused = cli("watch", "--project", "demo", "--timeout", "5", code=TOKEN)
    assert "--api-key-file" in refused.err
    assert "up to date" in cli("watch", "--project", "demo", "--timeout", "1", "--api-key-file", key).err
    assert "cannot be read" in cli("watch", "--project", "demo", "--api-key-file", key + ".no", code=TOKEN).err
