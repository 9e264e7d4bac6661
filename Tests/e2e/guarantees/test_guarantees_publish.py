"""G8 rollback, G9 compare and set, and what the answer to a publish promises."""

import asyncio

import pytest

from harness import configs
from harness.control import version_of
from harness.sse import Stream
from harness.templates import marked, parameters_of, template

pytestmark = pytest.mark.limit(60)


async def test_rollback_makes_a_new_version_with_the_old_content(daemon):
    client = daemon.client()
    for text in ("one", "two", "three"):
        await client.publish(marked(text))
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    answer = await client.rollback_raw(1)
    assert answer.status == 200 and version_of(answer) == 4
    version = answer.json()["version"]
    assert (version["updateType"], version["rollbackSource"]) == ("ROLLBACK", "1")
    assert answer.header("etag") == "etag-123456789012-4"
    assert parameters_of(await client.get()) == {"welcome_text": "one"}
    message = (await stream.version_at_least(4)).json()
    assert (message["updateType"], message["rollbackSource"]) == ("ROLLBACK", "1")
    assert message["changedKeys"] == ["welcome_text"]


@pytest.mark.parametrize("target", ("99", "9223372036854775807"))
@configs.one_half
async def test_rollback_to_an_unknown_version_is_not_found_and_changes_nothing(daemon, target):
    client = daemon.client()
    await client.publish(marked("only"))
    answer = await client.rollback_raw(target)
    assert answer.status in (400, 404) if int(target) > 99 else answer.status == 404, answer
    assert answer.json()["error"]["code"] == answer.status
    assert (await client.current())[0] == 1


@pytest.mark.parametrize("body", ("0", "-1", "abc", "1.5", ""))
@configs.one_half
async def test_rollback_to_nonsense_is_refused_as_the_callers_mistake(daemon, body):
    client = daemon.client()
    await client.publish(marked("only"))
    assert (await client.rollback_raw(body)).status in (400, 404)
    assert (await client.current())[0] == 1


@configs.one_half
async def test_of_fifty_concurrent_puts_with_one_if_match_exactly_one_succeeds(daemon):
    client = daemon.client()
    for _ in range(5):
        before = await client.publish(marked("start"))
        etag = (await client.current())[1]
        clients = [daemon.client() for _ in range(50)]
        answers = await asyncio.gather(*(c.put(marked(f"rival {i}"), etag) for i, c in enumerate(clients)))
        for rival in clients:
            rival.close()
        statuses = sorted(answer.status for answer in answers)
        assert statuses.count(200) == 1, statuses
        losers = [answer for answer in answers if answer.status != 200]
        assert all(a.status in (400, 409, 412) and "VERSION_MISMATCH" in a.json()["error"]["message"] for a in losers)
        winner = next(answer for answer in answers if answer.status == 200)
        assert version_of(winner) == before + 1
        assert parameters_of(await client.get()) == parameters_of(winner)


async def test_a_refused_publish_announces_nothing(daemon):
    client = daemon.client()
    await client.publish(marked("one"))
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    refused = [
        await client.put(marked("x"), "etag-123456789012-7"),
        await client.put(marked("x"), None),
        await client.put(template({"1bad name": "x"})),
        await client.put(b"{"),
    ]
    assert [answer.status for answer in refused] == [400] * 4
    validated = await client.put(marked("x"), "*", "?validateOnly=true")
    assert validated.status == 200 and validated.header("etag") == "etag-123456789012-0"
    two = await client.publish(marked("two"))
    await stream.version_at_least(two)
    assert stream.versions == [2], "only the accepted publish was announced"


async def test_visible_before_acknowledged_and_durable_with_it(daemon):
    """After the 200 every reader shows the version, also after kill -9."""
    client = daemon.client()
    for number in range(20):
        version = await client.publish(marked(str(number)))
        assert (await client.current())[0] == version
    daemon.kill()
    daemon.start()
    client = daemon.client()
    assert (await client.current())[0] == 20
    assert parameters_of(await client.get(20)) == {"welcome_text": "19"}
