"""The checkers of a cluster's history can fail: each is shown a record with the fault it is for, and one without."""

from harness import cluster_history as checks
from harness.cluster_history import ACKNOWLEDGED, DENIED, UNKNOWN, Attempt, Delivery, Entry, entry_of
from harness.history import Link, Seen, Stored

LOG = [Entry(1, "a", 1, "p1"), Entry(2, "b", 2, "p2")]


def test_an_acknowledged_publish_that_is_not_in_the_log_is_flagged():
    assert not checks.acknowledged_lost([Attempt("a", ACKNOWLEDGED, version=1), Attempt("c", UNKNOWN)], LOG)
    assert "not in the log" in checks.acknowledged_lost([Attempt("c", ACKNOWLEDGED)], LOG)[0]
    assert "has it as 1" in checks.acknowledged_lost([Attempt("a", ACKNOWLEDGED, version=2)], LOG)[0]


def test_a_publish_that_landed_twice_is_flagged():
    assert not checks.doubled(LOG)
    assert checks.doubled(LOG + [Entry(3, "a", 3, "p3")])
    assert checks.doubled(LOG + [Entry(3, "c", 3, "p1")])


def test_a_publish_that_was_denied_and_landed_is_flagged():
    assert not checks.wrongly_denied([Attempt("c", DENIED), Attempt("a", UNKNOWN)], LOG)
    assert checks.wrongly_denied([Attempt("a", DENIED)], LOG)


def test_what_was_told_later_is_held_against_the_log():
    assert not checks.told_wrongly([("a", ACKNOWLEDGED), ("c", DENIED), ("b", UNKNOWN)], LOG)
    assert checks.told_wrongly([("a", DENIED)], LOG)
    assert checks.told_wrongly([("c", ACKNOWLEDGED)], LOG)


def test_holes_and_numbers_that_go_back_are_flagged():
    assert not checks.not_a_sequence(LOG)
    assert checks.not_a_sequence([LOG[0], Entry(3, "c", 2)])
    assert checks.not_a_sequence(LOG + [Entry(3, "c", 2)])
    assert not checks.not_a_sequence(LOG + [Entry(3, "c", 1, scope="demo/other")])


def link(*sequences, subscriber="s", synced=""):
    return Link(subscriber, seen=[Seen(s, f"e.{s}") for s in sequences], synced=synced)


def test_a_cursor_that_goes_back_on_another_node_is_flagged():
    assert not checks.decrease_across_nodes([link(1, 5, synced="e.5"), link(5, 6)])
    assert checks.decrease_across_nodes([link(5), link(4)])
    assert checks.decrease_across_nodes([link(5), link(synced="e.4")])
    assert not checks.decrease_across_nodes([link(5), link(4, subscriber="t")])
    assert not checks.decrease_across_nodes([link(5), Link("s", seen=[Seen(1, "f.1")])]), "a new epoch counts anew"


def test_nodes_that_end_differently_are_flagged():
    a, b = Stored(1, "a"), Stored(2, "b")
    assert not checks.differing({"a": [a, b], "b": [b, a]}, LOG)
    assert checks.differing({"a": [a, b], "b": [a]})
    assert checks.differing({"a": [a, b], "b": [a, Stored(2, "c")]})
    assert checks.differing({"a": [a], "b": [a]}, LOG)
    assert checks.differing({"a": [a, b, Stored(3, "c")], "b": [a, b, Stored(3, "c")]}, LOG)


def test_two_winners_or_none_are_flagged():
    assert not checks.one_winner([[200, 412, 412], [409, 200, 400]])
    assert checks.one_winner([[200, 200, 412]])
    assert checks.one_winner([[412, 412, 412]])
    assert checks.one_winner([[200, 503, 412]])


def test_a_line_of_the_log_is_read():
    line = {"sequence": "7", "project": "demo", "namespace": "firebase", "publish": "p", "etag": "e",
            "version": {"versionNumber": "3", "description": "m", "updateTime": "t"}}
    assert entry_of(line) == Entry(7, "m", 3, "p", "demo/firebase", "e", "t")


def test_attempts_of_two_owners_are_flagged():
    tried = Delivery("a", 1, 0, 2, taken=False)
    assert not checks.two_owners([tried, Delivery("a", 1, 2, 3), Delivery("b", 2, 3, 4)])
    assert "under way" in checks.two_owners([tried, Delivery("b", 2, 1, 3)])[0]
    assert "older" in checks.two_owners([Delivery("b", 2, 0, 1), Delivery("a", 1, 1, 2)])[0]
    assert "taken" in checks.two_owners([Delivery("a", 1, 0, 1), Delivery("a", 1, 1, 2)])[0]
    assert "had the id" in checks.two_owners([tried, Delivery("c", 1, 2, 3)])[0]
