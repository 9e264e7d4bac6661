"""A certificate authority of a test's own: certificates for addresses and for clients, made by openssl."""

import ssl
import subprocess

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


class Authority:
    """Files in `directory`: `ca.pem`, and `NAME.pem` with `NAME.key` for everything it certifies."""

    def __init__(self, directory, name="ca"):
        self.directory, self.name = directory, name
        openssl("req", "-x509", *KEY, "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE",
                "-keyout", directory / f"{name}.key", "-out", directory / f"{name}.pem")

    def certify(self, name, *addresses):
        """Paths of a certificate with the common name and of its key."""
        certificate, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        places = ",".join(f"IP:{address}" for address in addresses) or f"DNS:{name}"
        openssl("req", "-x509", *KEY, "-CA", self.directory / f"{self.name}.pem",
                "-CAkey", self.directory / f"{self.name}.key", "-subj", f"/CN={name}",
                "-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName={places}",
                "-keyout", key, "-out", certificate)
        return certificate, key

    def server(self, *addresses, asks_clients=False):
        """A server's TLS settings for the addresses; with `asks_clients` only our clients are let in."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certify("server", *addresses))
        if asks_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.directory / f"{self.name}.pem")
        return context


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)
