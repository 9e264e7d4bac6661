"""An OpenID provider over TLS that keeps to the letter: codes are good once, for one client, redirect and verifier."""

import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import secrets
import threading
import time
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from harness.tokens import Key, key_set

CLIENT, SECRET = "console", "s3cret: of/the+client"


class Provider:
    """`person` are the claims of the person that signs in; `fault` names what goes wrong (see `Handler`)."""

    def __init__(self, authority, *, secret=SECRET, key=None):
        self.authority, self.secret = authority, secret
        self.key = key or Key("RS256")
        self.person = {"sub": "u-1", "name": "Ann Example", "email": "ann@shop.example", "email_verified": True, "groups": ["ops"]}
        self.fault, self.claims, self.says = None, {}, {}
        self.codes, self.exchanges, self.farewells = {}, [], []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"provider": self}))
        self.server.socket = authority.server("127.0.0.1").wrap_socket(self.server.socket, server_side=True)
        self.issuer = f"https://127.0.0.1:{self.server.server_port}/realms/shop"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def entry(self, name="accounts", role="publisher", **more):
        """The entry of `auth.issuers`."""
        if self.secret:
            (self.authority.directory / f"{name}.secret").write_text(self.secret + "\n")
            more.setdefault("clientSecretFile", str(self.authority.directory / f"{name}.secret"))
        return {"name": name, "issuer": self.issuer, "audiences": ["stalecast"], "algorithms": ["RS256"],
                "jwks": f"{self.issuer}/keys", "caFile": str(self.authority.directory / f"{self.authority.name}.pem"),
                "clientID": CLIENT, "rules": [{"when": {"groups": "ops"}, "role": role}], **more}

    def document(self):
        return {"issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize?tenant=shop",
                "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/keys",
                "end_session_endpoint": f"{self.issuer}/end", **self.says}

    def id_token(self, nonce):
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce, **self.person, **self.claims}
        return self.key.token({name: value for name, value in claims.items() if value is not None})


class Handler(http.server.BaseHTTPRequestHandler):
    """`fault`: down, denied, broken, no_token."""

    provider = None
    log_message = lambda *_: None

    def answer(self, status, body=b"", kind="application/json", **fields):
        body = json.dumps(body).encode() if not isinstance(body, bytes) else body
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **fields}.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def do_GET(self):
        provider, url = self.provider, urlsplit(self.path)
        asked = dict(parse_qsl(url.query))
        name = url.path.removeprefix("/realms/shop/")
        if provider.fault == "down":
            return self.answer(502, b"<html>bad gateway</html>", "text/html")
        if name == ".well-known/openid-configuration":
            return self.answer(200, provider.document())
        if name == "keys":
            return self.answer(200, key_set(provider.key))
        if name == "end":
            provider.farewells.append(asked)
            return self.answer(200, b"<!doctype html><link rel=icon href=data:,><title>Goodbye</title>You are signed out of accounts.", "text/html")
        if name == "authorize":
            return self.authorize(asked)
        return self.answer(404, {})

    def authorize(self, asked):
        provider = self.provider
        assert asked["tenant"] == "shop" and asked["response_type"] == "code" and asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256" and "openid" in asked["scope"].split()
        assert all(len(asked[name]) >= 43 for name in ("state", "nonce", "code_challenge"))
        code = secrets.token_urlsafe(16)
        provider.codes[code] = asked
        back = {"error": "access_denied", "error_description": "not <b>today</b>"} if provider.fault == "denied" else {"code": code}
        if provider.says.get("authorization_response_iss_parameter_supported"):
            back["iss"] = provider.issuer
        place = f"{asked['redirect_uri']}?{urlencode({**back, 'state': asked['state']})}"
        if self.headers.get("Accept", "").startswith("text/html"):  # people read, and press a button
            page = f"<!doctype html><link rel=icon href=data:,><title>accounts</title><a id=go href='{place.replace('&', '&amp;')}'>Continue as Ann</a>"
            return self.answer(200, page.encode(), "text/html")
        return self.answer(302, b"", Location=place)

    def do_POST(self):
        provider = self.provider
        form = {name: values[0] for name, values in
                parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode(), strict_parsing=True).items()}
        provider.exchanges.append(form)
        if provider.fault == "broken":
            return self.answer(500, b"oops", "text/plain")
        if not self.is_client(form):
            return self.answer(401, {"error": "invalid_client"})
        asked = provider.codes.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if not asked or form["grant_type"] != "authorization_code" or form["redirect_uri"] != asked["redirect_uri"] \
                or challenge != asked["code_challenge"]:
            return self.answer(400, {"error": "invalid_grant"})
        token = {} if provider.fault == "no_token" else {"id_token": provider.id_token(asked["nonce"])}
        return self.answer(200, {"access_token": "opaque", "token_type": "Bearer", "expires_in": 300, **token})

    def is_client(self, form):
        provider = self.provider
        if not provider.secret:
            return form.get("client_id") == CLIENT and "Authorization" not in self.headers
        if "client_secret" in form:
            return hmac.compare_digest(form["client_secret"], provider.secret)
        scheme, _, pair = self.headers.get("Authorization", "").partition(" ")
        return scheme == "Basic" and [unquote(part) for part in base64.b64decode(pair).decode().split(":")] == [CLIENT, provider.secret]
