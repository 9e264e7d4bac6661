"""Daemons that speak TLS, and the contexts of clients that trust them."""

import asyncio
import ssl

from harness import configs
from harness.authority import Authority, openssl


def tls(authority, name="localhost", *addresses, **more):
    """The keys of a `tls` section with a certificate for a name and addresses."""
    certificate, key = authority.certify(name, *(addresses or ("127.0.0.1",)))
    return {"certificate": str(certificate), "key": str(key), **more}


def trusting(authority, version=None, alpn=None):
    """A client's settings; `version` is the only one spoken, `alpn` the protocols offered."""
    context = ssl.create_default_context(cafile=authority.directory / f"{authority.name}.pem")
    if version:
        context.minimum_version = context.maximum_version = version
    if alpn:
        context.set_alpn_protocols(alpn)
    return context


def launch_tls(launch, tmp_path, half="engine", *, edge=None, control=False, **more):
    """A daemon whose Edge (with `control`, Control too) has a certificate for 127.0.0.1; and its authority."""
    authority = Authority(tmp_path)
    section = tls(authority)
    sections = {"control": {"tls": section}} if control else {}
    daemon = launch(configs.config(half, edge={"tls": {**section, **more}, **(edge or {})}, **sections), half=half)
    return daemon, authority


def self_signed(path, key, *, days="2", name="localhost"):
    """A certificate that is its own authority."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", days,
            "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", "-keyout", key, "-out", path)


class Stream:
    """One SSE stream over TLS, read as it comes."""

    def __init__(self, port, context, target="/v1/events?topic=PUSH_RC"):
        self.port, self.context, self.target = port, context, target
        self.text = b""

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, server_hostname="127.0.0.1")
        self.writer.write(f"GET {self.target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return await self.until(b"event: synced")

    async def until(self, words, timeout=30):
        """Reads until the words came; fails when the stream ends before."""
        while words not in self.text:
            more = await asyncio.wait_for(self.reader.read(1 << 16), timeout)
            assert more, f"the stream ended before {words!r}: {self.text[-300:]!r}"
            self.text += more
        return self

    @property
    def certificate(self):
        """What the server showed, in DER."""
        return self.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)

    def close(self):
        self.writer.close()
