"""API keys of a running daemon, as an operator makes them."""

import json


async def make_key(daemon, *grants, name="test", token=None, **settings):
    """A new key; returns (id, text). `kind="publishable"`, `expires=…` and the like are settings of it."""
    client = daemon.client()
    if token:
        client.token = token
    body = json.dumps({"name": name, "grants": list(grants), **settings}).encode()
    answer = await client.call("POST", "/v1/keys", body)
    client.close()
    assert answer.status == 200, f"no key: {answer}"
    return answer.json()["id"], answer.json()["key"]


async def change_key(daemon, key, verb, **body):
    """`rotate` or `revoke`; returns the answer."""
    client = daemon.client()
    answer = await client.call("POST", f"/v1/keys/{key}:{verb}", json.dumps(body).encode())
    client.close()
    return answer


def bearer(text):
    return [("Authorization", f"Bearer {text}")]
