"""The checkers can fail: each is shown a record with the fault it is for, and one without."""

import pytest

from harness import history
from harness.history import Link, Seen, Stored
from harness.http1 import Dechunker
from harness.sse import FrameParser


def link(*versions, subscriber="a", cursor="", synced="", topics=None):
    seen = [Seen(v, f"e.{v}", topics[i] if topics else "PUSH_RC") for i, v in enumerate(versions)]
    return Link(subscriber, cursor, seen, synced)


def test_lost_and_changed_versions_are_flagged():
    acknowledged = [Stored(1, "x"), Stored(2, "y")]
    assert not history.acknowledged_lost(acknowledged, [Stored(1, "x"), Stored(2, "y"), Stored(3, "z")])
    assert "gone" in history.acknowledged_lost(acknowledged, [Stored(1, "x")])[0]
    assert "is now" in history.acknowledged_lost(acknowledged, [Stored(1, "x"), Stored(2, "other")])[0]


def test_two_contents_of_a_version_and_holes_are_flagged():
    assert not history.not_a_function([Stored(1, "x"), Stored(1, "x"), Stored(2, "y")])
    assert history.not_a_function([Stored(1, "x"), Stored(1, "y")])
    assert history.not_a_function([Stored(1, "x", time="a"), Stored(1, "x", time="b")])
    assert history.not_a_function([Stored(1, "x"), Stored(3, "y")])
    assert not history.not_a_function([Stored(1, "x", epoch="e"), Stored(1, "y", epoch="f")])


def test_repeats_and_decreases_on_a_connection_are_flagged():
    assert not history.disorder_on_connection([link(1, 2, 5)])
    assert history.disorder_on_connection([link(1, 2, 2)])
    assert history.disorder_on_connection([link(5, 4)])
    assert not history.disorder_on_connection([link(5, 5, topics=["A", "B"])])
    assert history.disorder_on_connection([link(5, 4, topics=["A", "B"])])


def test_a_decrease_across_reconnects_is_flagged():
    assert not history.decrease_across_connections([link(1, 5), link(5, 6)])
    assert history.decrease_across_connections([link(1, 5), link(4)])
    assert not history.decrease_across_connections([link(5), link(4, subscriber="b")])


def test_subscribers_left_behind_are_flagged():
    assert not history.not_converged({"a": 7, "b": 8}, 7)
    assert history.not_converged({"a": 6}, 7)
    assert history.not_converged({"a": None}, 7)


def test_phantoms_are_flagged():
    stored = [Stored(1, "x", etag="", time="")]
    assert not history.phantoms([link(1)], stored)
    assert history.phantoms([link(1, 2)], stored)
    assert history.phantoms([link(1)], [Stored(1, "x", etag="other")])


def test_old_reads_are_flagged():
    assert not history.stale_reads([(3, 3), (3, 4)])
    assert history.stale_reads([(3, 2)])


def test_a_bookmark_before_its_messages_is_flagged():
    sequences = {("demo/firebase", 3): 3, ("demo/firebase", 4): 4}
    assert not history.bookmark_lies([link(4, cursor="e.2", synced="e.4")], sequences)
    assert not history.bookmark_lies([link(cursor="e.4", synced="e.4")], sequences)
    assert history.bookmark_lies([link(3, cursor="e.2", synced="e.4")], sequences)
    assert history.bookmark_lies([link(cursor="e.2", synced="e.4")], sequences)


@pytest.mark.parametrize("step", (1, 2, 7, 1000))
def test_chunks_and_frames_are_read_however_they_are_cut(step):
    payload = b"retry: 3000\n: hi\nevent: synced\nid: e.4\ndata: {}\n\nid: e.5\ndata: {\"a\":1}\n\n"
    wire = b"%x\r\n%s\r\n0\r\n\r\n" % (len(payload), payload)
    dechunker, parser, frames = Dechunker(), FrameParser(), []
    for start in range(0, len(wire), step):
        for chunk in dechunker.feed(wire[start : start + step]):
            frames += parser.feed(chunk)
    assert dechunker.ended
    assert [f.kind for f in frames] == ["retry", "comment", "event", "event"]
    assert (frames[2].name, frames[2].id, frames[3].name, frames[3].json()) == ("synced", "e.4", "message", {"a": 1})


def test_what_no_stream_of_ours_may_contain_is_refused():
    with pytest.raises(AssertionError):
        FrameParser().feed(b"data: x\r\n\r\n")
    with pytest.raises(UnicodeDecodeError):
        FrameParser().feed("data: é\n\n".encode())
    with pytest.raises(AssertionError):
        FrameParser().feed(b"injected: yes\ndata: x\n\n")
    with pytest.raises(AssertionError):
        Dechunker().feed(b"3\r\nabcd\r\n")
