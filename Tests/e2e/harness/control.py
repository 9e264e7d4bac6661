"""The Control API as a client: publish, rollback, read, list, send. Answers are `http1.Response`."""

import json

from harness.http1 import Connection
from harness.templates import encoded


class Control:
    """Over one keep-alive connection; use one per task. `token` None sends no Authorization header."""

    def __init__(self, port, token, project="demo", namespace=None):
        self.connection = Connection(port)
        self.token = token
        self.base = f"/v1/projects/{project}"
        if namespace:
            self.base += f"/namespaces/{namespace}"

    async def call(self, method, target, body=None, headers=(), timeout=15):
        headers = list(headers)
        if self.token:
            headers.append(("Authorization", f"Bearer {self.token}"))
        if body is not None:
            headers.append(("Content-Type", "application/json; charset=utf-8"))
        return await self.connection.request(method, target, headers, body, timeout)

    async def put(self, body, if_match="*", query="", timeout=15, headers=()):
        """PUT of a template; any answer is returned. `if_match` None sends no such header."""
        headers = list(headers) + ([("If-Match", if_match)] if if_match is not None else [])
        return await self.call("PUT", f"{self.base}/remoteConfig{query}", encoded(body), headers, timeout)

    async def publish(self, body, if_match="*"):
        """Publishes and returns the new version number; any answer but 200 is a failure."""
        answer = await self.put(body, if_match)
        assert answer.status == 200, f"publish answered {answer}"
        return version_of(answer)

    async def rollback_raw(self, version):
        body = json.dumps({"versionNumber": str(version)}).encode()
        return await self.call("POST", f"{self.base}/remoteConfig:rollback", body)

    async def rollback(self, version):
        answer = await self.rollback_raw(version)
        assert answer.status == 200, f"rollback to {version} answered {answer}"
        return version_of(answer)

    async def get(self, version=None):
        query = f"?versionNumber={version}" if version is not None else ""
        return await self.call("GET", f"{self.base}/remoteConfig{query}")

    async def current(self):
        """(version, etag) of the active template; version 0 when there is none."""
        answer = await self.get()
        assert answer.status == 200, f"get answered {answer}"
        return version_of(answer), answer.header("etag")

    async def versions(self, limit=300):
        """Metadata of up to `limit` newest versions, as {number: metadata}."""
        answer = await self.call("GET", f"{self.base}/remoteConfig:listVersions?pageSize={limit}")
        assert answer.status == 200, f"listVersions answered {answer}"
        return {int(entry["versionNumber"]): entry for entry in answer.json().get("versions", [])}

    async def send(self, data, **target):
        """messages:send; `target` is topic=… or condition=…"""
        body = json.dumps({"message": {**target, "data": data}}).encode()
        project = "/".join(self.base.split("/")[:4])
        return await self.call("POST", f"{project}/messages:send", body)

    def close(self):
        self.connection.close()


def version_of(answer):
    """The version number in a template answer; 0 for a project without a template."""
    return int(answer.json().get("version", {}).get("versionNumber", 0))
