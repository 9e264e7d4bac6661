"""Origins for a daemon's sources to watch: an HTTP server with ETags, and Firebase's REST API with its OAuth, as far as
their documents describe them. Both do as they are told, well or badly, and count what they are asked."""

import base64
import hashlib
import json
import time
from contextlib import ExitStack
from email.utils import formatdate
from urllib.parse import parse_qs, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from harness.receiver import Answer, Receiver
from harness.templates import encoded

AUDIENCE = "https://oauth2.googleapis.com/token"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SCOPES = {"https://www.googleapis.com/auth/firebase.remoteconfig", "https://www.googleapis.com/auth/cloud-platform"}


class HTTPOrigin(Receiver):
    """One document at any path. `fault` answers instead while it is set: an Answer or a function of the arrival."""

    def __init__(self, body=None, *, content_type="application/json", etag=True, last_modified=True):
        super().__init__(self._serve_document)
        self.fault = None
        self.token = None
        self.content_type, self._uses_etag, self._uses_date = content_type, etag, last_modified
        self.full = self.not_modified = 0
        self.put(body if body is not None else {})

    def put(self, body):
        self.body = encoded(body)
        self.changed = time.time()

    @property
    def etag(self):
        return '"' + hashlib.sha1(self.body).hexdigest()[:16] + '"'

    def _serve_document(self, arrival):
        if self.fault is not None:
            return self.fault(arrival) if callable(self.fault) else self.fault
        if self.token and arrival.headers.get("authorization") != f"Bearer {self.token}":
            return Answer(401, body=b"who are you?")
        headers = [("Content-Type", self.content_type)]
        if self._uses_etag:
            headers.append(("ETag", self.etag))
        if self._uses_date:
            headers.append(("Last-Modified", formatdate(self.changed, usegmt=True)))
        wanted = arrival.headers.get("if-none-match")
        if self._uses_etag and wanted == self.etag:
            self.not_modified += 1
            return Answer(304, tuple(headers))
        self.full += 1
        return Answer(200, tuple(headers), self.body)


def google_error(status, word, message="said so"):
    body = json.dumps({"error": {"code": status, "message": message, "status": word}}).encode()
    return Answer(status, (("Content-Type", "application/json"),), body)


def unpadded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class FirebaseOrigin(Receiver):
    """A project's template API behind OAuth. `visible` lags behind `versions` by `lag` for full templates."""

    def __init__(self, project="origin-project", *, lifetime=3599):
        super().__init__(self._route)
        self.project, self.lifetime, self.lag = project, lifetime, 0
        self.fault = {}  # by what is asked: token, list, get
        self.asked = {"token": 0, "list": 0, "get": 0}
        self.tokens = set()
        self.assertions = []
        self.clock_skew = 0
        self.versions = []  # of (metadata, template), the oldest first
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def key_file(self, path):
        """Writes the service account's key file."""
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path.write_text(json.dumps({
            "type": "service_account", "project_id": self.project, "private_key_id": "key-1",
            "private_key": pem.decode(), "client_email": f"robot@{self.project}.iam.gserviceaccount.com",
            "client_id": "1", "token_uri": f"{self.url}/token"}))
        return path

    def publish(self, template, **metadata):
        """The next version; `metadata` as Firebase spells it."""
        number = len(self.versions) + 1
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".123456Z"
        version = {"versionNumber": str(number), "updateTime": moment, "updateOrigin": "CONSOLE",
                   "updateType": "INCREMENTAL_UPDATE", "updateUser": {"email": "ann@example.test"}, **metadata}
        self.versions.append((version, {**template, "version": version}))
        return number

    def rollback(self, target):
        _, template = self.versions[target - 1]
        return self.publish(template, updateType="ROLLBACK", rollbackSource=str(target),
                            description=f"Rollback to version {target}")

    def expire_tokens(self):
        self.tokens.clear()

    # What is asked, and the answers

    def _route(self, arrival):
        url = urlsplit(arrival.path)
        base = f"/v1/projects/{self.project}/"
        path = url.path.removeprefix(base).removeprefix("namespaces/firebase/")
        kind = {"/token": "token", "remoteConfig:listVersions": "list", "remoteConfig": "get"}.get(path)
        if kind is None:
            return google_error(404, "NOT_FOUND", f"nothing at {arrival.path}")
        self.asked[kind] += 1
        if fault := self.fault.get(kind):
            return fault(arrival) if callable(fault) else fault
        if kind == "token":
            return self._token(arrival)
        if arrival.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            return google_error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        return self._list(query) if kind == "list" else self._get(query)

    def _token(self, arrival):
        form = {name: values[0] for name, values in parse_qs(arrival.body.decode()).items()}
        problem = self._problem_of(form)
        if problem:
            body = json.dumps({"error": "invalid_grant", "error_description": problem}).encode()
            return Answer(400, (("Content-Type", "application/json"),), body)
        token = f"token-{self.asked['token']}"
        self.tokens.add(token)
        body = json.dumps({"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"}).encode()
        return Answer(200, (("Content-Type", "application/json"),), body)

    def _problem_of(self, form):
        """What Google would complain about; None when the assertion is good."""
        if form.get("grant_type") != GRANT:
            return "wrong grant_type"
        head, claims, signature = form["assertion"].split(".")
        if json.loads(unpadded(head)).get("alg") != "RS256":
            return "Invalid JWT: not RS256"
        try:
            self._key.public_key().verify(
                unpadded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return "Invalid JWT Signature."
        claims = json.loads(unpadded(claims))
        self.assertions.append(claims)
        now = time.time() + self.clock_skew
        if not now - 3700 < claims["iat"] < now + 300 or not 0 < claims["exp"] - claims["iat"] <= 3600:
            return "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."
        if claims["aud"] not in (AUDIENCE, f"{self.url}/token") or not claims["iss"].startswith("robot@"):
            return "Invalid JWT: wrong audience or issuer"
        return None if SCOPES & set(claims["scope"].split()) else "Invalid OAuth scope"

    def _list(self, query):
        listed = [version for version, _ in reversed(self.versions)][:int(query.get("pageSize", 10))]
        return self._json({"versions": listed} if listed else {})

    def _get(self, query):
        newest = len(self.versions)
        number = int(query.get("versionNumber", newest - self.lag))
        if number > newest - self.lag:
            return google_error(404, "NOT_FOUND", "Requested entity was not found.")
        template = self.versions[number - 1][1] if number else {"conditions": [], "parameters": {}}
        return self._json(template, ("ETag", f"etag-123-{number}"))

    @staticmethod
    def _json(value, *headers):
        return Answer(200, (("Content-Type", "application/json; charset=UTF-8"), *headers), json.dumps(value).encode())


def all_of(*contexts):
    """Enters several origins at once."""
    stack = ExitStack()
    for context in contexts:
        stack.enter_context(context)
    return stack
