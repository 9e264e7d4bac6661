"""Where a subscriber says it stands, and what it is owed: SSE header, SSE query and long-poll."""

import shutil

import pytest

from harness import configs
from harness.cli import stalecast
from harness.poll import poll, versions_in
from harness.sse import Stream, events_target
from harness.templates import marked, template

OTHER_EPOCH = "a" * 26
MALFORMED = ("garbage", "1", ".5", "a.b.c", OTHER_EPOCH, f"{OTHER_EPOCH}.", f"{OTHER_EPOCH}.-1", f"{OTHER_EPOCH}.01",
             f"{OTHER_EPOCH}.99999999999999999999999999", "x" * 65, "x" * 4000, "%00", "é")


@pytest.fixture(params=("header", "last_event_id", "cursor", "poll"))
def ask(request):
    """Asks with a cursor in one of the four ways; returns (reset reason or None, versions, cursor afterwards)."""
    way = request.param

    async def over_poll(daemon, cursor):
        answer = await poll(daemon.edge, cursor=cursor, wait="0s")
        assert answer.status == 200, answer
        body = answer.json()
        return (body.get("reset") or {}).get("reason"), versions_in(answer), body["cursor"]

    async def over_sse(daemon, cursor):
        if way == "header":
            stream = await Stream.open(daemon.edge, last_event_id=cursor)
        else:
            stream = await Stream.open(daemon.edge, target=events_target(**{way: cursor}))
        synced = await stream.synced()
        stream.close()
        resets = [frame for frame in stream.events if frame.name == "reset"]
        if resets:
            assert stream.events[0] is resets[0] and len(resets) == 1, "reset comes before anything else, once"
        return resets[0].json()["reason"] if resets else None, stream.versions, synced.id

    return over_poll if way == "poll" else over_sse


async def cursors_of_three_versions(daemon):
    """Publishes three versions; returns the cursors after each."""
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    for number in range(3):
        await daemon.publish(marked(str(number)))
        await stream.version_at_least(number + 1)
    stream.close()
    return [frame.id for frame in stream.messages]


async def test_an_older_cursor_gets_one_coalesced_message(daemon, ask):
    cursors = await cursors_of_three_versions(daemon)
    assert await ask(daemon, cursors[0]) == (None, [3], cursors[2])


@configs.one_half
async def test_the_current_cursor_gets_nothing(daemon, ask):
    cursors = await cursors_of_three_versions(daemon)
    assert await ask(daemon, cursors[2]) == (None, [], cursors[2])


@configs.one_half
async def test_a_cursor_from_the_future_is_reset(daemon, ask):
    cursors = await cursors_of_three_versions(daemon)
    epoch = cursors[2].partition(".")[0]
    reason, versions, after = await ask(daemon, f"{epoch}.4")
    assert reason == "future-cursor" and versions == [3] and after == cursors[2]


@configs.one_half
async def test_a_cursor_of_another_epoch_is_reset(daemon, ask):
    cursors = await cursors_of_three_versions(daemon)
    reason, versions, after = await ask(daemon, f"{OTHER_EPOCH}.1")
    assert reason == "unknown-epoch" and versions == [3] and after == cursors[2]


async def test_a_malformed_cursor_is_reset_never_an_error(daemon, ask):
    cursors = await cursors_of_three_versions(daemon)
    got = {text: await ask(daemon, text) for text in MALFORMED}
    assert got == {text: ("malformed", [3], cursors[2]) for text in MALFORMED}


@configs.one_half
async def test_an_empty_cursor_is_none(daemon, ask):
    cursors = await cursors_of_three_versions(daemon)
    assert await ask(daemon, "") == (None, [], cursors[2])


@configs.one_half
async def test_the_header_wins_over_the_query(daemon):
    cursors = await cursors_of_three_versions(daemon)
    stream = await Stream.open(daemon.edge, last_event_id=cursors[2], cursor=cursors[0])
    await stream.synced()
    assert stream.versions == []
    stream = await Stream.open(daemon.edge, last_event_id=cursors[0], cursor="garbage")
    await stream.synced()
    assert stream.versions == [3] and not any(f.name == "reset" for f in stream.events)


@pytest.mark.parametrize("have,versions", ((0, [3]), (1, [3]), (2, [3]), (3, []), (99, [])))
async def test_have_brings_a_message_only_when_older(daemon, have, versions):
    await cursors_of_three_versions(daemon)
    stream = await Stream.open(daemon.edge, have=have)
    await stream.synced()
    assert stream.versions == versions
    answer = await poll(daemon.edge, have=have, wait="0s")
    assert versions_in(answer) == versions


@configs.one_half
async def test_a_resumed_message_names_the_union_of_changed_keys(daemon):
    await daemon.publish(template({"a": "1"}))
    stream = await Stream.open(daemon.edge)
    cursor = (await stream.synced()).id
    await daemon.publish(template({"a": "1", "b": "1"}))
    await daemon.publish(template({"b": "1", "c": "1"}))
    again = await Stream.open(daemon.edge, last_event_id=cursor)
    await again.synced()
    message = again.messages[0].json()
    assert message["changedKeys"] == ["a", "b", "c"] and message["sinceTemplateVersionNumber"] == "1"


@configs.one_half
async def test_a_restored_backup_resets_live_cursors_before_anything_else(launch, half, tmp_path):
    daemon = launch(configs.config(half), half=half)
    await daemon.publish(marked("in the backup"))
    backup = tmp_path / "copy.backup"
    stalecast("backup", backup, "--data", daemon.data)
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    for number in range(4):
        await daemon.publish(marked(f"after the backup {number}"))
    await stream.version_at_least(5)
    assert daemon.stop() == 0
    stalecast("restore", backup, "--data", daemon.data)
    daemon.start()
    again = await Stream.open(daemon.edge, last_event_id=stream.last_id)
    synced = await again.synced()
    assert [f.name for f in again.events] == ["reset", "message", "synced"]
    assert again.events[0].json()["reason"] == "unknown-epoch"
    assert again.versions == [1] and synced.id.partition(".")[0] != stream.last_id.partition(".")[0]
    answer = await poll(daemon.edge, cursor=stream.last_id, wait="0s")
    assert answer.json()["reset"]["reason"] == "unknown-epoch" and versions_in(answer) == [1]
    assert await daemon.publish(marked("after the restore")) == 6, "clients may hold a version 5"


@configs.one_half
async def test_a_database_file_put_back_by_hand_gets_a_new_epoch(launch, half):
    """The high-water mark outside the file notices what no version number could."""
    daemon = launch(configs.config(half), half=half)
    await daemon.publish(marked("one"))
    assert daemon.stop() == 0
    saved = daemon.directory / "saved.sqlite"
    shutil.copy(daemon.data / "stalecast.sqlite", saved)
    daemon.start()
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    await daemon.publish(marked("two"))
    await stream.version_at_least(2)
    assert daemon.stop() == 0
    for leftover in daemon.data.glob("stalecast.sqlite-*"):
        leftover.unlink()
    shutil.copy(saved, daemon.data / "stalecast.sqlite")
    daemon.start()
    again = await Stream.open(daemon.edge, last_event_id=stream.last_id)
    await again.synced()
    assert again.events[0].name == "reset" and again.versions == [1]
