"""Certificates with dates of their own."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@pytest.fixture
def dated(tmp_path):
    """Writes NAME.pem and NAME.key, valid from and until so many seconds from now; returns the certificate's path."""
    def make(name, begin, end):
        now, key = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        places = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        certificate = (
            x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now + timedelta(seconds=begin))
            .not_valid_after(now + timedelta(seconds=end))
            .add_extension(x509.SubjectAlternativeName(places), critical=False).sign(key, hashes.SHA256()))
        path = tmp_path / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (tmp_path / f"{name}.key").write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return path

    return make
