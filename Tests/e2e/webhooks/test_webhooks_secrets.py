"""Nothing that opens a door is in the clear: not on disk, in the log, in metrics, answers or messages to others."""

import json
import urllib.parse

import pytest

from harness import webhooks
from harness.authority import Authority
from harness.receiver import Answer, Receiver
from harness.templates import marked
from harness.webhooks import Webhooks, acknowledged, secret_of, state_is, verified
from test_webhooks_formats import GoogleStandIn

IN_QUERY, IN_HEADER, IN_COOKIE = "query-s3cret-9Qz", "header-s3cret-7Kd", "cookie-s3cret-4Wm"


def spellings(secret):
    """Ways in which a secret might be written down."""
    plain = secret.removeprefix("whsec_").removeprefix("whsk_")
    return {plain.encode(), plain.rstrip("=").encode(), urllib.parse.quote(plain, safe="").encode(),
            json.dumps(plain)[1:-1].encode()}


def lines_of(file):
    """The lines of a PEM file that are its content."""
    return [line for line in file.read_text().splitlines() if not line.startswith("-----")]


async def test_no_secret_of_any_kind_is_anywhere_in_the_clear(launch, tmp_path):
    """Signing keys of both kinds, headers, a client certificate's key, a service account's key and its tokens."""
    files = tmp_path / "files"
    files.mkdir()
    authority = Authority(files)
    authority.certify("client")
    google = GoogleStandIn(files)
    with google.server, Receiver(tls=authority.server("127.0.0.1", asks_clients=True)) as closed, Receiver() as open_:
        daemon = launch(webhooks.config(
            webhooks={"filesDirectory": str(files), "receivers": [google.receiver()]}, log={"level": "trace"}))
        hooks = Webhooks(daemon)
        [push] = await hooks.list()
        client = {"caFile": "ca.pem", "certificateFile": "client.pem", "keyFile": "client.key"}
        made = [
            await hooks.add(closed.url, tls=client),
            await hooks.add(open_.url, signing={"algorithm": "ed25519"}),
            await hooks.add(f"{open_.url}/hook?token={IN_QUERY}",
                            headers={"Authorization": f"Bearer {IN_HEADER}", "Cookie": f"session={IN_COOKIE}"}),
            push,
            await hooks.add("http://127.0.0.1:1/", headers={"X-Api-Key": IN_HEADER}),
        ]
        secrets = [secret_of(hook) for hook in made if "secret" in hook.get("signing", {})]
        secrets += [secret_of(await hooks.act(made[index], "rotateSecret")) for index in (0, 1)]
        assert len(secrets) == 6 and len(set(secrets)) == 6
        version = await daemon.publish(marked("one"))
        for hook in made[:4]:
            await hooks.until(hook, acknowledged(version))
        assert open_.wait(lambda all_: [a for a in all_ if IN_HEADER in a.headers.get("authorization", "")])
        await hooks.until_attempts(made[4], lambda found: found)
        answers = [await hooks.call("GET"), *[await hooks.get(hook) for hook in made]]
        answers += [await hooks.attempts(hook) for hook in made]
        told = {f"answer {index}": json.dumps(answer).encode() for index, answer in enumerate(answers)}
        for path in ("/metrics", "/status", "/readyz", "/openapi.json"):
            told[path] = (await daemon.ask_control(path)).body
    daemon.stop()
    told |= {str(file): file.read_bytes() for file in [*daemon.data.rglob("*"), daemon.log] if file.is_file()}
    assert b"webhook" in told[str(daemon.log)] and len(told) > 15
    hidden = {spelling for secret in [*secrets, IN_HEADER, IN_COOKIE, *google.tokens] for spelling in spellings(secret)}
    account = json.loads((files / "push.json").read_text())["private_key"]
    keys = lines_of(files / "client.key") + account.splitlines()[1:-1]
    hidden |= {line.encode() for line in keys}
    for place, text in told.items():
        for secret in hidden:
            assert secret not in text, f"{secret} is in {place}"
    # Only the owner of a URL is shown it whole.
    for place, text in told.items():
        assert place.startswith("answer") or IN_QUERY.encode() not in text, f"the URL's token is in {place}"


async def test_news_about_a_webhook_do_not_tell_its_token(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as watcher, Receiver(lambda _: Answer(204, (("Webhook-Delivery", "disable"),))) as leaving:
        watching = await hooks.add(watcher.url, topics=["stalecast.webhooks"])
        other = await hooks.add(f"{leaving.url}/hook?token={IN_QUERY}")
        await daemon.publish(marked("one"))
        await hooks.until(other, state_is("disabled"))
        [arrival] = watcher.wait_for(1)
    assert verified(arrival, secret_of(watching))["data"]["webhook"] == other["id"]
    assert IN_QUERY.encode() not in arrival.body


@pytest.mark.parametrize("place", ["data directory", "credential"])
async def test_without_its_key_the_daemon_says_what_to_do(launch, tmp_path, place):
    key = tmp_path / "daemon0/data/webhooks.key" if place == "data directory" else tmp_path / "credential"
    text = webhooks.config(webhooks={"keyFile": str(key)} if place == "credential" else None)
    if place == "credential":
        key.write_text("ab" * 32 + "\n")
    daemon = launch(text)
    secret = secret_of(await Webhooks(daemon).add("https://a.example/"))
    daemon.stop()
    assert (daemon.data / "webhooks.key").exists() == (place == "data directory")
    kept = key.read_bytes()
    for change, sentence in [(key.unlink, f"{key} is missing"),
                             (lambda: key.write_text("not a key"), f"{key} does not hold 32 bytes"),
                             (lambda: key.write_text("cd" * 32), f"{key} is not the key")]:
        change()
        daemon.spawn()
        assert daemon.wait() == 1
        said = daemon.log_tail(3)
        assert sentence in said and secret not in said
        if "32 bytes" not in sentence:
            assert "put" in said and "move webhooks.sqlite and its -wal away to start without webhooks" in said
    key.write_bytes(kept)
    daemon.start()
    assert len(await Webhooks(daemon).list()) == 1
