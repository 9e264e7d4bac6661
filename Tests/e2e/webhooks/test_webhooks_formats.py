"""Formats and handshakes against what speaks them: Firebase's own functions SDK, an FCM stand-in that checks the OAuth
assertion, CloudEvents' OPTIONS handshake, the signed challenge."""

import base64
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from harness import ports, webhooks
from harness.daemon import environment
from harness.receiver import Answer, Receiver
from harness.templates import marked
from harness.webhooks import Refused, Webhooks, acknowledged, secret_of, state_is, verified, versions

# What an application's author writes; what it got goes into a file, one JSON document per line.
HANDLER = """
import json, os
from firebase_functions import remote_config_fn

@remote_config_fn.on_config_updated()
def on_rc_update(event: remote_config_fn.CloudEvent[remote_config_fn.ConfigUpdateData]) -> None:
    data = event.data
    with open(os.environ["SEEN"], "a") as seen:
        print(json.dumps({"id": event.id, "type": event.type, "source": event.source, "version": data.version_number,
                          "updateType": data.update_type.value, "origin": data.update_origin.value,
                          "description": data.description, "rollback": data.rollback_source,
                          "email": data.update_user.email}), file=seen)
"""


class Function:
    """A Cloud Function under functions-framework, as the cloud runs it."""

    def __init__(self, directory):
        self.seen = directory / "seen"
        self.seen.touch()
        source = directory / "main.py"
        source.write_text(HANDLER)
        # The port is chosen here: the framework does not print one. The kernel gives none of these to other tests.
        self.port = ports.free()
        command = [sys.executable, "-m", "functions_framework", "--source", str(source), "--target", "on_rc_update",
                   "--signature-type", "cloudevent", "--host", "127.0.0.1", "--port", str(self.port)]
        self.log = open(directory / "function.log", "w")
        self.process = subprocess.Popen(command, cwd=directory, stdout=self.log, stderr=self.log,
                                        env=environment(SEEN=str(self.seen), GCLOUD_PROJECT="demo"))
        self.url = f"http://127.0.0.1:{self.port}/"

    def __enter__(self):
        deadline = time.monotonic() + 40
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                assert self.process.poll() is None, "the functions framework ended"
                assert time.monotonic() < deadline, "the functions framework does not listen"
                time.sleep(0.1)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()

    @property
    def events(self):
        return [json.loads(line) for line in self.seen.read_text().splitlines()]


@pytest.mark.parametrize("form", ["cloudevents-binary", "cloudevents-structured"])
@pytest.mark.limit(120)
async def test_a_firebase_function_takes_every_kind_of_change(launch, tmp_path, form):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    await daemon.publish(marked("zero"))
    with Function(tmp_path) as function:
        made = await hooks.add(function.url, format=form, limits={"timeout": "60s"})

        async def told(version):
            await hooks.until(made, acknowledged(version), timeout=60)

        client = daemon.client()
        _, etag = await client.current()
        published = await client.publish(marked("plain"), if_match=etag)
        await told(published)
        forced = await client.publish(marked("forced"))
        await told(forced)
        rolled = await client.rollback(published)
        await told(rolled)
        test = (await hooks.act(made, "test"))["attempt"]
        assert test["status"] == 200, test
        attempts = await hooks.attempts(made)
        assert {attempt["status"] for attempt in attempts} == {200}, attempts
        by_version = {event["version"]: event for event in function.events}
    assert by_version[published]["updateType"] == "INCREMENTAL_UPDATE"
    assert by_version[forced]["updateType"] == "FORCED_UPDATE"
    assert by_version[rolled]["updateType"] == "ROLLBACK" and by_version[rolled]["rollback"] == published
    for event in by_version.values():
        assert event["type"] == "google.firebase.remoteconfig.remoteConfig.v1.updated"
        assert event["source"] == "//firebaseremoteconfig.googleapis.com/projects/demo"
        assert event["origin"] == "REST_API"
    assert by_version[forced]["description"] == "forced"


# MARK: FCM


class GoogleStandIn:
    """Token endpoint and FCM in one. It trusts no caller: assertions are checked with the account's public key."""

    def __init__(self, directory):
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.directory = directory
        self.tokens, self.assertions, self.messages, self.refusals = [], [], [], 0
        self.expires_in = 3600
        self.server = Receiver(self.answer)

    def key_file(self, **more):
        pem = self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                     serialization.NoEncryption()).decode()
        account = {"type": "service_account", "project_id": "push-project", "private_key_id": "k1", "private_key": pem,
                   "client_email": "sender@push-project.iam.gserviceaccount.com", "token_uri": f"{self.server.url}/token"}
        path = self.directory / "push.json"
        path.write_text(json.dumps({**account, **more}))
        return path

    def receiver(self):
        """An entry of `webhooks.receivers` that sends here."""
        return {"name": "push", "format": "fcm", "url": self.server.url, "serviceAccountFile": str(self.key_file())}

    def answer(self, arrival):
        if arrival.path == "/token":
            return self.give_token(arrival)
        token = arrival.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.tokens:
            self.refusals += 1
            return Answer(401, body=b'{"error":{"code":401,"status":"UNAUTHENTICATED"}}')
        assert arrival.path == "/v1/projects/push-project/messages:send", arrival.path
        self.messages.append((json.loads(arrival.body), arrival.headers))
        return Answer(200, (("Content-Type", "application/json"),), b'{"name":"projects/push-project/messages/1"}')

    def give_token(self, arrival):
        form = urllib.parse.parse_qs(arrival.body.decode())
        assert arrival.headers["content-type"].startswith("application/x-www-form-urlencoded")
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        self.assertions.append(self.checked(form["assertion"][0]))
        self.tokens.append(f"token-{len(self.assertions)}")
        body = json.dumps({"access_token": self.tokens[-1], "expires_in": self.expires_in, "token_type": "Bearer"})
        return Answer(200, (("Content-Type", "application/json"),), body.encode())

    def checked(self, assertion):
        """The claims, after signature and header were checked."""
        head, claims, signature = assertion.split(".")
        decode = lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        self.key.public_key().verify(decode(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        header = json.loads(decode(head))
        assert header["alg"] == "RS256" and header["typ"] == "JWT" and header["kid"] == "k1"
        return json.loads(decode(claims))


@pytest.fixture
def google(tmp_path):
    stand_in = GoogleStandIn(tmp_path)
    with stand_in.server:
        yield stand_in


async def fcm(launch, google):
    """A webhook of the configuration file, which may send tokens to another host than Google's."""
    daemon = launch(webhooks.config(webhooks={"receivers": [google.receiver()]}))
    hooks = Webhooks(daemon)
    [made] = await hooks.list()
    return daemon, hooks, made


async def test_apps_of_the_topic_get_exactly_what_firebase_sends(launch, google):
    daemon, hooks, made = await fcm(launch, google)
    assert made["url"] == f"{google.server.url}/v1/projects/push-project/messages:send" and "signing" not in made
    for marker in ("one", "two", "three"):
        version = await daemon.publish(marked(marker))
        await hooks.until(made, acknowledged(version))
    bodies = [body for body, _ in google.messages]
    assert bodies == [{"message": {"topic": "PUSH_RC", "data": {"CONFIG_STATE": "STALE"}}}] * 3
    assert all("webhook-signature" not in headers for _, headers in google.messages)
    [claims] = google.assertions  # one token for all three
    assert claims["iss"] == "sender@push-project.iam.gserviceaccount.com"
    assert claims["scope"] == "https://www.googleapis.com/auth/firebase.messaging"
    assert claims["aud"] in (f"{google.server.url}/token", "https://oauth2.googleapis.com/token")
    assert 0 < claims["exp"] - claims["iat"] <= 3600 and abs(claims["iat"] - time.time()) < 60


async def test_a_test_message_to_fcm_reaches_no_app(launch, google):
    _, hooks, made = await fcm(launch, google)
    assert (await hooks.act(made, "test"))["attempt"]["status"] == 200
    [(body, _)] = google.messages
    assert body == {"message": {"topic": "PUSH_RC", "data": {"CONFIG_STATE": "STALE"}}, "validate_only": True}


async def test_a_revoked_token_is_fetched_anew_and_the_message_comes(launch, google):
    daemon, hooks, made = await fcm(launch, google)
    version = await daemon.publish(marked("one"))
    await hooks.until(made, acknowledged(version))
    google.tokens.clear()
    version = await daemon.publish(marked("two"))
    await hooks.until(made, acknowledged(version))
    assert google.refusals == 1 and len(google.assertions) == 2 and len(google.messages) == 2


async def test_news_about_webhooks_cannot_go_to_fcm(launch, google):
    google.key_file()
    hooks = Webhooks(launch(webhooks.config(webhooks={"filesDirectory": str(google.directory)})))
    with pytest.raises(Refused) as refused:
        await hooks.add("https://fcm.googleapis.com", format="fcm", fcm={"serviceAccountFile": "push.json"},
                        topics=["PUSH_RC", "stalecast.webhooks"])
    assert refused.value.field == "topics"


# MARK: Consent


def consenting(arrival, rate="*"):
    """A receiver as CloudEvents' webhook specification describes it."""
    if arrival.method != "OPTIONS":
        return Answer(204)
    origin = arrival.headers.get("webhook-request-origin")
    return Answer(200, (("WebHook-Allowed-Origin", origin), ("WebHook-Allowed-Rate", rate), ("Allow", "POST")))


async def test_cloudevents_receivers_are_asked_before_anything_is_sent(launch):
    daemon = launch(webhooks.config(webhooks={"requestOrigin": "stale.example"}))
    hooks = Webhooks(daemon)
    await daemon.publish(marked("zero"))
    isMade = threading.Event()

    def consenting_later(arrival):
        isMade.wait(20)
        return consenting(arrival)

    with Receiver(consenting_later) as receiver:
        made = await hooks.add(receiver.url, format="cloudevents-binary", verification={"method": "cloudevents"})
        assert made["state"]["name"] == "unverified"
        isMade.set()
        await hooks.until(made, state_is("active"))
        version = await daemon.publish(marked("one"))
        await hooks.until(made, acknowledged(version))
        first, *others = receiver.arrivals
    assert first.method == "OPTIONS" and first.headers["webhook-request-origin"] == "stale.example" and not first.body
    assert others and all(each.method == "POST" for each in others)
    assert all(each.headers["webhook-request-origin"] == "stale.example" for each in others)


async def test_the_rate_a_receiver_grants_is_kept(launch):
    """60 a minute: ten publishes in a burst are at most a few requests, and the last one tells the newest version."""
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver(lambda arrival: consenting(arrival, "60")) as receiver:
        made = await hooks.add(receiver.url, verification={"method": "cloudevents"})
        document = await hooks.until(made, state_is("active"))
        assert document["verification"]["allowedPerMinute"] == 60
        begin = time.monotonic()
        for index in range(10):
            version = await daemon.publish(marked(str(index)))
        await hooks.until(made, acknowledged(version))
        seconds = time.monotonic() - begin
        posts = [each for each in receiver.arrivals if each.method == "POST"]
    assert len(posts) <= seconds + 2, f"{len(posts)} requests in {seconds:.1f} s"


async def test_a_receiver_that_does_not_answer_the_question_gets_nothing_else(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as silent, Receiver() as heard:
        made = await hooks.add(silent.url, verification={"method": "cloudevents"})
        silent.wait_for(1)
        with pytest.raises(Refused) as refused:
            await hooks.act(made, "verify")
        assert refused.value.word == "FAILED_PRECONDITION" and "WebHook-Allowed-Origin" in refused.value.message
        other = await hooks.add(heard.url)
        version = await daemon.publish(marked("one"))
        await hooks.until(other, acknowledged(version))
        assert {each.method for each in silent.arrivals} == {"OPTIONS"}
        assert state_is("unverified")(await hooks.get(made))


async def test_the_challenge_is_signed_and_its_echo_is_consent(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)

    def echo(arrival):
        body = json.loads(arrival.body)
        if body["type"] == "webhook.verification":
            return Answer(200, body=json.dumps({"challenge": body["data"]["challenge"]}).encode())
        return Answer(204)

    with Receiver(echo) as receiver:
        made = await hooks.add(receiver.url, verification={"method": "challenge"})
        await hooks.until(made, state_is("active"))
        question = receiver.arrivals[0]
        assert len(verified(question, secret_of(made))["data"]["challenge"]) >= 22
        version = await daemon.publish(marked("one"))
        await hooks.until(made, acknowledged(version))
        # Another URL has to be asked again.
        await hooks.update(made, url=f"{receiver.url}/other")
        await hooks.until(made, state_is("active"))
        await daemon.publish(marked("two"))
        receiver.wait(lambda all_: sum(each.path == "/other" for each in all_) >= 2)
        assert [json.loads(each.body)["type"] for each in receiver.arrivals if each.path == "/other"][0] == "webhook.verification"


async def test_operational_messages_tell_of_other_webhooks(launch):
    """A receiver subscribed to stalecast.webhooks hears that another one was disabled, and that it recovered."""
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as watcher, Receiver(lambda _: Answer(204, (("Webhook-Delivery", "disable"),))) as leaving:
        watching = await hooks.add(watcher.url, topics=["stalecast.webhooks"])
        other = await hooks.add(leaving.url)
        await daemon.publish(marked("one"))
        disabled = await hooks.until(other, state_is("disabled"))
        arrival = watcher.wait_for(1)[0]
        body = verified(arrival, secret_of(watching))
        assert body["type"] == "webhook.disabled" and other["id"] in json.dumps(body["data"])
        assert disabled["state"]["reason"] and disabled["state"]["since"]
        assert not versions(watcher.arrivals)
