"""Signatures as foreign libraries judge them: PyPI `standardwebhooks` and `svix`, and for `v1a`, which no library
verifies yet, an Ed25519 verifier of PyPI `cryptography`. What signs is `stalecast webhooks sign`, the daemon's signer."""

import base64
import importlib
import json
import os
import random
import subprocess
import time
from datetime import datetime, timezone

import pytest
import standardwebhooks
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from harness.cli import stalecast
from harness.daemon import BINARY, environment

pytestmark = pytest.mark.skipif(not os.access(BINARY, os.X_OK), reason=f"no binary at {BINARY}")

BODIES = 10_000

# reference/webhooks-libcurl.md §1.4: standard-webhooks' own tests, and Svix's worker's.
HMAC_VECTORS = [
    ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}',
     "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1649367553,
     '{"email":"test@example.com","username":"test_user"}', "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="),
]
ED25519_SECRET = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
ED25519_PUBLIC = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
ED25519_SIGNATURE = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="


def secret_file(directory, secret, name="secret"):
    path = directory / name
    path.write_text(secret + "\n")
    return path


def sign(body, *files, **options):
    """The headers for one body, through a file."""
    path = files[0].parent / "body"
    path.write_bytes(body)
    flags = [f"--{name}={value}" for name, value in options.items()]
    secrets = [flag for file in files for flag in ("--secret-file", file)]
    return dict(line.split(": ", 1) for line in stalecast("webhooks", "sign", path, *secrets, *flags).splitlines())


def sign_lines(requests, *files):
    """The headers for each of `requests`."""
    command = [BINARY, "webhooks", "sign", "--lines", *(flag for file in files for flag in ("--secret-file", str(file)))]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def verify_ed25519(public, headers, body):
    """Raises InvalidSignature unless one of the `v1a` signatures is right."""
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("whpk_")))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    for each in headers["webhook-signature"].split(" "):
        scheme, _, signature = each.partition(",")
        if scheme != "v1a":
            continue
        try:
            return key.verify(base64.b64decode(signature), signed)
        except InvalidSignature:
            pass
    raise InvalidSignature


def random_body(dice):
    """An unusual JSON text: deep, long, with every kind of character."""

    def value(depth):
        kind = dice.randrange(6 if depth < 3 else 4)
        if kind == 0:
            return dice.choice([None, True, False, 0, -1, 2**53, dice.random() * 10 ** dice.randrange(-20, 20)])
        if kind in (1, 2, 3):
            count = dice.choice([0, 1, 5, 50])
            return "".join(chr(dice.choice([*range(32, 127), 0xE9, 0x4E2D, 0x1F600, 9, 10, 13])) for _ in range(count))
        if kind == 4:
            return [value(depth + 1) for _ in range(dice.randrange(5))]
        return {str(value(3)): value(depth + 1) for _ in range(dice.randrange(5))}

    text = json.dumps({"type": "config.stale", "data": value(0)}, ensure_ascii=dice.random() < 0.5)
    return dice.choice(["", " ", "\n"]) + text + dice.choice(["", "\n", "  "])


@pytest.mark.parametrize("secret, message, timestamp, body, signature", HMAC_VECTORS)
def test_the_published_vectors_of_v1_are_reproduced(tmp_path, secret, message, timestamp, body, signature):
    headers = sign(body.encode(), secret_file(tmp_path, secret), id=message, timestamp=timestamp)
    assert headers == {"webhook-id": message, "webhook-timestamp": str(timestamp), "webhook-signature": signature}


def test_the_published_vector_of_v1a_and_ours_are_both_right(tmp_path):
    _, message, timestamp, body, _ = HMAC_VECTORS[0]
    headers = sign(body.encode(), secret_file(tmp_path, ED25519_SECRET), id=message, timestamp=timestamp)
    verify_ed25519(ED25519_PUBLIC, headers, body.encode())
    published = {**headers, "webhook-signature": ED25519_SIGNATURE}
    verify_ed25519(ED25519_PUBLIC, published, body.encode())
    stalecast("webhooks", "check-signature", tmp_path / "body", "--secret-file",
              secret_file(tmp_path, ED25519_PUBLIC, "public"), "--id", message, "--timestamp", timestamp,
              "--signature", ED25519_SIGNATURE, "--any-time")


@pytest.fixture
def svix():
    """Svix's library. Every process that collects tests would take two seconds to load it."""
    return importlib.import_module("svix.webhooks")


@pytest.mark.limit(120)
def test_ten_thousand_random_bodies_are_verified_by_both_libraries(tmp_path, svix):
    dice = random.Random(20261121)
    secret = stalecast("webhooks", "new-secret").strip()
    now = int(time.time())
    requests = [{"body": random_body(dice), "id": f"msg_{dice.getrandbits(64):x}", "timestamp": now + dice.randrange(-60, 60)}
                for _ in range(BODIES)]
    answers = sign_lines(requests, secret_file(tmp_path, secret))
    assert len(answers) == BODIES
    standard, of_svix = standardwebhooks.Webhook(secret), svix.Webhook(secret)
    for request, headers in zip(requests, answers):
        body = request["body"].encode()
        expected = json.loads(body)
        assert standard.verify(body, headers) == expected
        # Svix's library answers nothing; it raises when something is wrong.
        of_svix.verify(body, headers)
        of_svix.verify(body, {name.replace("webhook-", "svix-"): value for name, value in headers.items()})
    # The check can fail: one bit of one body is enough.
    body, headers = bytearray(requests[0]["body"].encode()), answers[0]
    body[-3] ^= 1
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standard.verify(bytes(body), headers)


@pytest.mark.limit(120)
def test_a_thousand_random_bodies_are_verified_as_v1a(tmp_path):
    dice = random.Random(20261122)
    made = json.loads(stalecast("webhooks", "new-secret", "--algorithm", "ed25519", "--json"))
    requests = [{"body": random_body(dice), "id": f"msg_{index}"} for index in range(1000)]
    answers = sign_lines(requests, secret_file(tmp_path, made["secret"]))
    for request, headers in zip(requests, answers):
        verify_ed25519(made["publicKey"], headers, request["body"].encode())
    with pytest.raises(InvalidSignature):
        verify_ed25519(made["publicKey"], answers[1], requests[0]["body"].encode())


def test_while_a_key_is_replaced_the_holders_of_either_verify(tmp_path, svix):
    """The current key first, then older ones, of both kinds: a receiver of any of them accepts."""
    secrets = [stalecast("webhooks", "new-secret").strip() for _ in range(3)]
    pair = json.loads(stalecast("webhooks", "new-secret", "--algorithm", "ed25519", "--json"))
    files = [secret_file(tmp_path, secret, f"secret{index}") for index, secret in enumerate([*secrets[:2], pair["secret"]])]
    body = b'{"type":"config.stale"}'
    headers = sign(body, *files)
    assert [each.partition(",")[0] for each in headers["webhook-signature"].split(" ")] == ["v1", "v1", "v1a"]
    for secret in secrets[:2]:
        standardwebhooks.Webhook(secret).verify(body, headers)
        svix.Webhook(secret).verify(body, headers)
    verify_ed25519(pair["publicKey"], headers, body)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(secrets[2]).verify(body, headers)


@pytest.mark.parametrize("age, accepted", [(-280, True), (280, True), (-320, False), (320, False)])
def test_our_check_of_a_signature_agrees_with_the_library_about_time(tmp_path, age, accepted):
    secret = HMAC_VECTORS[0][0]
    file = secret_file(tmp_path, secret)
    stamp = int(datetime.now(timezone.utc).timestamp()) + age
    headers = sign(b"{}", file, timestamp=stamp)
    try:
        standardwebhooks.Webhook(secret).verify(b"{}", headers)
        library = True
    except standardwebhooks.WebhookVerificationError:
        library = False
    command = [BINARY, "webhooks", "check-signature", str(tmp_path / "body"), "--secret-file", str(file),
               "--id", headers["webhook-id"], "--timestamp", str(stamp), "--signature", headers["webhook-signature"]]
    ours = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment(), check=False)
    assert (library, ours.returncode == 0) == (accepted, accepted), ours.stderr
