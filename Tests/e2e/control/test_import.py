"""`stalecast import firebase`: from a stand-in of Google's with OAuth, and from another Stalecast's Control."""

import asyncio

import pytest

from harness.cli import NOT_FOUND, REFUSED, TOKEN, Cli
from harness.origins import FirebaseOrigin, google_error
from harness.sources import fed, source_of, version
from harness.templates import marked, template

AUDIENCE = [{"name": "buyers", "expression": "app.audiences.inAtLeastOne(['Buyers'])"}]


@pytest.fixture
def origin():
    with FirebaseOrigin() as origin:
        yield origin


def words(origin, tmp_path):
    key = origin.key_file(tmp_path / "robot.json")
    return ["import", "firebase", "--project", origin.project, "--credentials", str(key), "--url", origin.url]


async def test_versions_are_copied_once_and_what_google_alone_evaluates_is_named(launch, origin, tmp_path):
    daemon = launch()
    cli, command = Cli(daemon), words(origin, tmp_path)
    origin.publish(marked("one"), description="first")
    origin.publish({"parameters": {"1": {"defaultValue": {"value": "x"}}}})
    origin.publish(template({"welcome_text": "three"}, conditions=AUDIENCE))
    plan = await asyncio.to_thread(cli.json, *command, "--dry-run")
    assert [entry["originVersionNumber"] for entry in plan["published"]] == ["1", "3"] and plan["dryRun"]
    assert await daemon.client().versions() == {}
    # Google limits requests; it says how long to wait.
    throttled = google_error(429, "RESOURCE_EXHAUSTED")
    throttled.headers = (*throttled.headers, ("Retry-After", "0"))
    throttle = iter([throttled])
    origin.fault["get"] = lambda arrival: next(throttle, None) or origin._get({"versionNumber": arrival.path[-1]})
    done = await asyncio.to_thread(cli, *command)
    del origin.fault["get"]
    assert "condition buyers tests app.audiences" in done and "version 2 is not valid here" in done and "429" in done.err
    stored = await daemon.client().versions()
    assert list(sorted(stored)) == [1, 2]
    assert stored[1]["description"].startswith(f"[firebase {origin.project}/firebase 1] ")
    assert stored[1]["description"].endswith("CONSOLE, ann@example.test: first")
    assert (await daemon.client().get()).json()["parameters"]["welcome_text"]["defaultValue"] == {"value": "three"}
    assert "nothing new" in await asyncio.to_thread(cli, *command)
    origin.rollback(1)
    again = await asyncio.to_thread(cli.json, *command)
    assert again["published"] == [{"originVersionNumber": "4", "versionNumber": "3"}] and not again["findings"]
    await daemon.publish(marked("ours"))
    assert "nothing new" in await asyncio.to_thread(cli, *command), "what is here does not matter then"


async def test_a_source_goes_on_behind_an_import(launch, origin, tmp_path):
    daemon = launch()
    for mark in ("one", "two"):
        origin.publish(marked(mark))
    await asyncio.to_thread(Cli(daemon), *words(origin, tmp_path))
    assert daemon.stop() == 0
    daemon.configure(fed({"kind": "firebase", "url": origin.url, "originProject": origin.project, "serve": "notify",
                          "serviceAccountFile": str(tmp_path / "robot.json"), "interval": "200ms"}))
    daemon.start()
    origin.publish(marked("three"))
    assert await version(daemon, 3) == {"welcome_text": "three"}
    assert (await source_of(daemon)).get("error") is None


async def test_nothing_of_others_is_replaced_unasked(launch, origin, tmp_path):
    daemon = launch()
    cli, command = Cli(daemon), words(origin, tmp_path)
    await daemon.publish(marked("ours"))
    origin.publish(marked("theirs"))
    done = await asyncio.to_thread(cli, *command, code=REFUSED)
    assert "--force" in done.err and len(await daemon.client().versions()) == 1
    await asyncio.to_thread(cli, *command, "--force")
    assert len(await daemon.client().versions()) == 2


async def test_what_is_wrong_is_said_with_a_code(launch, origin, tmp_path):
    cli, command = Cli(launch()), words(origin, tmp_path)
    assert "no version" in (await asyncio.to_thread(cli, *command, code=NOT_FOUND)).err
    origin.publish({"parameters": {"1": {"defaultValue": {"value": "x"}}}})
    done = await asyncio.to_thread(cli, *command, code=REFUSED)
    assert "version 1 of origin-project/firebase is not a valid template" in done.err
    origin.fault["list"] = google_error(403, "PERMISSION_DENIED")
    assert "Viewer" in (await asyncio.to_thread(cli, *command, code=TOKEN)).err
    assert "--credentials" in (await asyncio.to_thread(cli, *command[:4], code=TOKEN)).err


async def test_another_stalecast_is_an_origin(launch, tmp_path):
    first, second = launch(), launch()
    for mark in ("one", "two"):
        await first.publish(marked(mark))
    await asyncio.to_thread(
        Cli(second), "import", "firebase", "--project", "demo", "--url", f"http://127.0.0.1:{first.control}",
        "--credentials", str(first.data / "control.token"))
    assert (await second.client().get()).json()["parameters"] == (await first.client().get()).json()["parameters"]
    assert len(await second.client().versions()) == 2
