"""Issuers of tokens: keys of every kind, key sets, and tokens with anything in them, well or badly signed."""

import base64
import hmac
import json
import secrets
import time

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

ISS = "https://issuer.example"
AUD = "stalecast"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def dump(value):
    return value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()


def number(value, length=None):
    return b64(value.to_bytes(length or (value.bit_length() + 7) // 8, "big"))


class Key:
    """A signing key with its JWK. `alg` is what it signs with."""

    def __init__(self, alg="ES256", kid="k1", bits=2048):
        self.alg, self.kid = alg, kid
        if alg == "ES256":
            self.private = ec.generate_private_key(ec.SECP256R1())
            public = self.private.public_key().public_numbers()
            self.jwk = {"kty": "EC", "crv": "P-256", "x": number(public.x, 32), "y": number(public.y, 32)}
        elif alg == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
            raw = self.private.public_key().public_bytes_raw()
            self.jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64(raw)}
        elif alg == "HS256":
            self.private = secrets.token_bytes(32)
            self.jwk = {"kty": "oct", "k": b64(self.private)}
        else:
            self.private = rsa.generate_private_key(65537, bits)
            public = self.private.public_key().public_numbers()
            self.jwk = {"kty": "RSA", "n": number(public.n), "e": number(public.e)}
        if kid is not None:
            self.jwk["kid"] = kid

    def sign(self, data):
        if self.alg == "ES256":
            r, s = decode_dss_signature(self.private.sign(data, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(32, "big") + s.to_bytes(32, "big")
        if self.alg == "EdDSA":
            return self.private.sign(data)
        if self.alg == "HS256":
            return hmac.digest(self.private, data, "sha256")
        digest = {"RS256": hashes.SHA256(), "RS512": hashes.SHA512(), "PS256": hashes.SHA256()}[self.alg]
        pad = padding.PSS(padding.MGF1(digest), 32) if self.alg == "PS256" else padding.PKCS1v15()
        return self.private.sign(data, pad, digest)

    def pem(self):
        return self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def token(self, claims=None, header=None, signature=None):
        """`claims` and `header` are mappings, or bytes as they are; `signature` changes the good one."""
        head = b64(dump({"alg": self.alg, "typ": "JWT", "kid": self.kid} if header is None else header))
        body = b64(dump(good() if claims is None else claims))
        data = f"{head}.{body}".encode()
        signed = self.sign(data)
        return f"{data.decode()}.{b64(signature(signed) if signature else signed)}"


GRANT = {"type": "urn:stalecast:grant", "actions": ["watch", "fetch"], "projects": ["demo"]}


def good(without=(), **changes):
    now = int(time.time())
    claims = {"iss": ISS, "aud": AUD, "sub": "user-1", "iat": now, "exp": now + 600,
              "authorization_details": [GRANT], **changes}
    return {name: value for name, value in claims.items() if name not in without}


def key_set(*keys):
    return json.dumps({"keys": [key.jwk if isinstance(key, Key) else key for key in keys]}).encode()


def issuer(jwks, *algorithms, name="test", iss=ISS, **more):
    """An entry of `auth.issuers`."""
    entry = {"name": name, "issuer": iss, "audiences": [AUD, "other"], "algorithms": list(algorithms or ("ES256",)),
             "jwks": str(jwks), **more}
    if "rules" not in more:
        entry.setdefault("grantsInTokens", True)
    return entry


def auth(*issuers, mode="enforce", **more):
    return {"mode": mode, "issuers": list(issuers), **more}
