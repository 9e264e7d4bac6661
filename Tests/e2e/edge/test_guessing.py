"""Who guesses credentials is told to stop: 20 bad ones a second from one address, then 429. Seen from an address that is not
loopback's, which is not limited: a proxy may be there."""

import http.client
import math
import socket
import time

import pytest

from harness import configs
from harness.keys import make_key
from harness.namespaces import own_network
from harness.tokens import Key, auth, good, issuer, key_set

STRANGER = "10.9.8.7"
GUESS = "stc_s_0123456789_0123456789012345678901234567890123456789012abcdef"


def status(port, target, credential, source):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15, source_address=(source, 0))
    connection.request("GET", target, headers={"Authorization": f"Bearer {credential}"})
    answer = connection.getresponse()
    connection.close()
    return answer.status, answer.headers


@configs.one_half
@pytest.mark.parametrize("listener", ["edge", "control"])
async def test_who_guesses_is_told_to_stop(launch, half, listener):
    with own_network(STRANGER):
        daemon = launch(configs.config(half, auth={"mode": "enforce"}), half=half)
        _, good = await make_key(daemon, {"actions": ["watch", "read"]})
        port, target = {"edge": (daemon.edge, "/v1/poll?topic=PUSH_RC&wait=0s"), "control": (daemon.control, "/v1/projects/demo/topics")}[listener]
        begun = time.monotonic()
        answers = [status(port, target, GUESS, STRANGER) for _ in range(70)]
        seconds = math.ceil(time.monotonic() - begun) + 1
        codes = [code for code, _ in answers]
        assert set(codes) == {401, 429} and codes[:20] == [401] * 20 and codes.count(401) <= 20 * seconds, codes
        assert all("retry-after" in headers for code, headers in answers if code == 429)
        assert status(port, target, good, STRANGER)[0] == 200, "what is known costs nothing and is served"
        assert {status(port, target, GUESS, "127.0.0.1")[0] for _ in range(40)} == {401}


async def test_who_does_not_wait_for_the_answer_is_counted_too(launch, half, tmp_path):
    """Else signatures would be checked for clients that hung up."""
    key, forger = Key(), Key()
    (tmp_path / "keys").write_bytes(key_set(key))
    target, forged = "/v1/poll?topic=PUSH_RC&wait=0s", (forger.token(good(jti=str(number))) for number in range(1000))
    with own_network(STRANGER):
        daemon = launch(configs.config(half, auth=auth(issuer(tmp_path / "keys"))), half=half)

        def told_to_stop():
            for _ in range(60):
                with socket.create_connection(("127.0.0.1", daemon.edge), source_address=(STRANGER, 0)) as sock:
                    sock.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {next(forged)}\r\n\r\n".encode())
            return status(daemon.edge, target, next(forged), STRANGER)[0] == 429

        assert any(told_to_stop() for _ in range(10)), "bad tokens are checked without an end"
        assert status(daemon.edge, target, key.token(), "127.0.0.1")[0] == 200
