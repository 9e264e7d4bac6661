"""Scopes fed from files: what editors, deploy scripts and Kubernetes do to them, and what never becomes a version."""

import asyncio
import json
import os
import time

import pytest

from harness.daemon import LONG
from harness.figures import record
from harness.sources import fed, file_feed, problem, subscribe, version, well
from harness.templates import encoded, marked
from harness.waiting import until


def in_place(path, body):
    """A truncating write, as shells do."""
    path.write_bytes(body)


def renamed_over(path, body):
    """A new file beside it that takes its name, as careful editors do."""
    fresh = path.with_name(".fresh.tmp")
    fresh.write_bytes(body)
    os.replace(fresh, path)


def moved_away_first(path, body):
    """The old file becomes a backup, then a new one is written, as vim does with backupcopy=no."""
    os.rename(path, path.with_name(path.name + "~"))
    path.write_bytes(body)


def truncated_then_written(path, body):
    """Emptied, and after a pause written in two halves."""
    with open(path, "r+b") as file:
        file.truncate(0)
        file.flush()
        time.sleep(0.05)
        file.write(body[: len(body) // 2])
        file.flush()
        time.sleep(0.05)
        file.write(body[len(body) // 2:])


SAVES = [in_place, renamed_over, moved_away_first, truncated_then_written]


@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.__name__)
async def test_every_way_to_save_becomes_one_version(launch, tmp_path, save):
    path = tmp_path / "template.json"
    path.write_bytes(encoded(marked("one")))
    daemon = launch(fed(file_feed(path)))
    assert await version(daemon, 1) == {"welcome_text": "one"}
    stream = await subscribe(daemon)
    save(path, encoded(marked("two")))
    message = await stream.version_at_least(2)
    assert message.json()["updateType"] == "REMOTE_CONFIG_UPDATE_TYPE_UNSPECIFIED"
    assert await version(daemon, 2) == {"welcome_text": "two"}
    save(path, encoded(marked("three")))
    assert await version(daemon, 3) == {"welcome_text": "three"}
    await stream.version_at_least(3)
    assert stream.versions == [2, 3]
    assert "source cannot be used" not in daemon.log_text()
    stream.close()


async def test_a_change_is_heard_without_a_poll(launch, tmp_path):
    path = tmp_path / "template.json"
    path.write_bytes(encoded(marked("0")))
    # The next poll is a day away: only an event of the file system brings a change.
    daemon = launch(fed(file_feed(path, interval="1d")))
    await version(daemon, 1)
    stream = await subscribe(daemon)
    delays = []
    for index in range(100 if LONG else 25):
        begin = time.monotonic()
        renamed_over(path, encoded(marked(f"change {index}")))
        await stream.version_at_least(index + 2)
        delays.append(time.monotonic() - begin)
        await asyncio.sleep(0.02)
    delays.sort()
    record("file: change to STALE", p50_ms=delays[len(delays) // 2] * 1000, max_ms=delays[-1] * 1000)
    stream.close()


async def test_yaml_is_read_as_well(launch, tmp_path):
    path = tmp_path / "template.yaml"
    path.write_text("parameters:\n  colour:\n    defaultValue: {value: red}\n")
    daemon = launch(fed(file_feed(path)))
    assert await version(daemon, 1) == {"colour": "red"}


class ConfigMap:
    """A volume as kubelet writes it: `name` links to `..data/name`, `..data` to a directory that is swapped."""

    def __init__(self, root):
        self.root, self.count = root, 0
        root.mkdir()

    def write(self, **files):
        self.count += 1
        fresh = self.root / f"..2026_11_21_{self.count}"
        fresh.mkdir()
        for name, body in files.items():
            (fresh / f"{name}.json").write_bytes(body)
        swap = self.root / "..data_tmp"
        swap.symlink_to(fresh.name)
        os.replace(swap, self.root / "..data")
        for name in files:
            link = self.root / f"{name}.json"
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}.json")
        for old in self.root.glob("..2026*"):
            if old != fresh:
                for file in old.iterdir():
                    file.unlink()
                old.rmdir()


@pytest.mark.parametrize("whole", [False, True], ids=["file", "directory"])
async def test_a_configmap_is_swapped(launch, tmp_path, whole):
    volume = ConfigMap(tmp_path / "config")
    volume.write(template=encoded(marked("one")))
    daemon = launch(fed(file_feed(volume.root if whole else volume.root / "template.json", interval="1d")))
    await version(daemon, 1)
    stream = await subscribe(daemon)
    for index in range(2, 12):
        volume.write(template=encoded(marked(str(index))))
        await stream.version_at_least(index)
    assert await version(daemon, 11) == {"welcome_text": "11"}
    stream.close()


async def test_a_directory_is_one_template(launch, tmp_path):
    root = tmp_path / "parts"
    root.mkdir()
    (root / "a.json").write_text(json.dumps({"parameters": {"a": {"defaultValue": {"value": "1"}}}}))
    (root / "b.yaml").write_text("parameters: {b: {defaultValue: {value: '2'}}}\n")
    (root / "notes.txt").write_text("not a template")
    daemon = launch(fed(file_feed(root)))
    assert await version(daemon, 1) == {"a": "1", "b": "2"}
    (root / "c.yml").write_text("parameters: {c: {defaultValue: {value: '3'}}}\n")
    assert await version(daemon, 2) == {"a": "1", "b": "2", "c": "3"}
    (root / "d.json").write_text(json.dumps({"parameters": {"a": {"defaultValue": {"value": "9"}}}}))
    error = await problem(daemon, "invalid_content")
    assert "a.json" in error["message"] and "d.json" in error["message"]
    (root / "d.json").unlink()
    await well(daemon)
    assert await version(daemon, 2) == {"a": "1", "b": "2", "c": "3"}


async def test_half_a_file_is_never_published(launch, tmp_path):
    """YAML that ends early is YAML: only the writer's close makes it whole."""
    path = tmp_path / "template.yaml"
    path.write_text("parameters:\n  a: {defaultValue: {value: one}}\n")
    daemon = launch(fed(file_feed(path, interval="100ms")))
    await version(daemon, 1)
    with open(path, "w") as file:
        file.write("parameters:\n")
        for name in "abcdefghij":
            file.write(f"  {name}: {{defaultValue: {{value: two}}}}\n")
            file.flush()
            await asyncio.sleep(0.08)
    assert await version(daemon, 2) == {name: "two" for name in "abcdefghij"}


async def test_half_a_file_behind_a_link_is_never_published(launch, tmp_path):
    """The writer works under a name that does not look like a template's."""
    blob, path = tmp_path / "blob", tmp_path / "template.yaml"
    blob.write_text("parameters:\n  a: {defaultValue: {value: one}}\n")
    path.symlink_to(blob.name)
    daemon = launch(fed(file_feed(path, interval="100ms")))
    await version(daemon, 1)
    await written_in_halves(blob)
    assert await version(daemon, 2) == {"a": "two", "b": "two"}


async def written_in_halves(path):
    """Both halves are valid templates."""
    with open(path, "w") as file:
        file.write("parameters:\n  a: {defaultValue: {value: two}}\n")
        file.flush()
        await asyncio.sleep(0.45)  # longer than the interval of both sources that read it
        file.write("  b: {defaultValue: {value: two}}\n")


async def test_one_directory_under_two_names_feeds_two_scopes(launch, tmp_path):
    """inotify has one watch for it under any of its names."""
    for name in ("p", "q"):
        (tmp_path / f"{name}.yaml").write_text("parameters:\n  a: {defaultValue: {value: one}}\n")
    paths = {"p": tmp_path / "p.yaml", "q": f"{tmp_path}/../{tmp_path.name}/q.yaml"}
    daemon = launch(fed(
        *(file_feed(path, scope=f"{name}/firebase", interval="300ms") for name, path in paths.items()),
        projects=[{"id": "p", "number": 1}, {"id": "q", "number": 2}]))
    for name in paths:
        await version(daemon, 1, project=name)
    for name in paths:
        await written_in_halves(tmp_path / f"{name}.yaml")
        assert await version(daemon, 2, project=name) == {"a": "two", "b": "two"}


def part(name, value):
    return encoded({"parameters": {name: {"defaultValue": {"value": value}}}})


async def test_changes_of_a_directory_that_belong_together_are_one_version(launch, tmp_path):
    """A checkout writes its files one after the other; a save may move the old file away first."""
    root, names = tmp_path / "parts", "abcd"
    root.mkdir()
    for name in names:
        (root / f"{name}.json").write_bytes(part(name, "0"))
    daemon = launch(fed(file_feed(root, interval="1d")))
    assert await version(daemon, 1) == dict.fromkeys(names, "0")
    number = 1
    for value in map(str, range(1, 6)):
        slowest = 0
        for name in names:
            begin = time.monotonic()
            moved_away_first(root / f"{name}.json", part(name, value))
            await asyncio.sleep(0.02)
            slowest = max(slowest, time.monotonic() - begin)
        if slowest > 0.08:
            pytest.skip("this machine is too busy to write files that belong together in time")
        number += 1
        assert await version(daemon, number) == dict.fromkeys(names, value)


async def test_a_file_that_leaves_a_directory_takes_its_parameters_away(launch, tmp_path):
    root = tmp_path / "parts"
    root.mkdir()
    for name in "ab":
        (root / f"{name}.json").write_bytes(part(name, "1"))
    daemon = launch(fed(file_feed(root, interval="1d")))
    assert await version(daemon, 1) == {"a": "1", "b": "1"}
    (root / "b.json").unlink()
    assert await version(daemon, 2) == {"a": "1"}


async def test_the_audit_log_has_no_value_of_content_that_is_wrong(launch, tmp_path):
    path = tmp_path / "template.json"
    path.write_bytes(encoded(marked("one")))
    daemon = launch(fed(file_feed(path, interval="100ms")))
    await version(daemon, 1)
    number = {"valueType": "NUMBER", "defaultValue": {"value": "hidden"}}
    renamed_over(path, json.dumps({"parameters": {"a": number}}).encode())
    assert "hidden" in (await problem(daemon, "invalid_content"))["message"]

    async def audited():
        text = (daemon.data / "audit.jsonl").read_text()
        return text if "source.read" in text else None

    assert "hidden" not in await until(audited, "audit line")


async def test_what_is_wrong_or_gone_changes_nothing_and_is_said_once(launch, tmp_path):
    path = tmp_path / "template.json"
    path.write_bytes(encoded(marked("one")))
    daemon = launch(fed(file_feed(path, interval="100ms")))
    await version(daemon, 1)
    path.write_text('{"parameters": ')
    error = await problem(daemon, "invalid_content")
    assert "JSON" in error["message"]
    looks = await daemon.metric("stalecast_source_looks_total")
    while await daemon.metric("stalecast_source_looks_total") < looks + 3:
        await asyncio.sleep(0.01)
    assert daemon.log_text().count("source cannot be used") == 1
    path.unlink()
    await problem(daemon, "not_found")
    assert await version(daemon, 1) == {"welcome_text": "one"}
    path.write_bytes(encoded(marked("two")))
    await well(daemon)
    assert await version(daemon, 2) == {"welcome_text": "two"}
    assert daemon.log_text().count("source is well again") == 1


async def test_earlier_content_is_a_new_version(launch, tmp_path):
    path = tmp_path / "template.json"
    path.write_bytes(encoded(marked("A")))
    daemon = launch(fed(file_feed(path)))
    await version(daemon, 1)
    path.write_bytes(encoded(marked("B")))
    await version(daemon, 2)
    path.write_bytes(encoded(marked("A")))
    assert await version(daemon, 3) == {"welcome_text": "A"}


async def test_a_restart_announces_what_changed_meanwhile_and_nothing_else(launch, tmp_path):
    path = tmp_path / "template.json"
    path.write_bytes(encoded(marked("one")))
    daemon = launch(fed(file_feed(path)))
    await version(daemon, 1)
    stream = await subscribe(daemon)
    daemon.stop()
    daemon.start()
    await well(daemon)
    assert (await daemon.status())["scopes"][0]["versionNumber"] == "1"
    daemon.stop()
    path.write_bytes(encoded(marked("two")))
    path.write_bytes(encoded(marked("three")))
    daemon.start()
    assert await version(daemon, 2) == {"welcome_text": "three"}
    later = await subscribe(daemon, last_event_id=stream.last_id)
    assert later.versions == [2]
    later.close()
    stream.close()


async def test_a_file_that_comes_later_is_found(launch, tmp_path):
    path = tmp_path / "later" / "deep" / "template.json"
    daemon = launch(fed(file_feed(path, interval="1d")))
    await problem(daemon, "not_found")
    path.parent.mkdir(parents=True)
    path.write_bytes(encoded(marked("here")))
    assert await version(daemon, 1) == {"welcome_text": "here"}


async def test_without_events_it_is_polled(launch, tmp_path):
    """What cannot be watched, here a file that is written to through another name, is found by looking."""
    path, other = tmp_path / "watched" / "template.json", tmp_path / "elsewhere" / "template.json"
    path.parent.mkdir()
    other.parent.mkdir()
    other.write_bytes(encoded(marked("one")))
    os.link(other, path)
    daemon = launch(fed(file_feed(path, interval="200ms")))
    await version(daemon, 1)
    other.write_bytes(encoded(marked("two")))
    assert await version(daemon, 2) == {"welcome_text": "two"}


async def test_a_fed_scope_cannot_be_published_to(launch, tmp_path):
    path = tmp_path / "template.json"
    path.write_bytes(encoded(marked("one")))
    daemon = launch(fed(file_feed(path)))
    await version(daemon, 1)
    client = daemon.client()
    for answer in (await client.put(marked("mine")), await client.rollback_raw(1)):
        assert answer.status == 400
        error = answer.json()["error"]
        assert error["status"] == "FAILED_PRECONDITION" and str(path) in error["message"]
    server = daemon.client(namespace="firebase-server")
    assert (await server.put(marked("mine"))).status == 200
    client.close()
    server.close()
