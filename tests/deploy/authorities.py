"""Certificates for tests and benchmarks: a CA, and key pairs that it signs."""

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedfloor.deploy.link import Papers


@dataclass(frozen=True)
class Authority:
    """A CA with a key of its own."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def identity(self, name: str, days: int = 1, host: str = "127.0.0.1") -> Papers:
        """A key pair for localhost and an address; negative days: it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(host))]
        certificate = (
            _builder(name, self.certificate.subject, key, days)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return Papers(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
            self.pem,
        )


def new_authority(name: str = "plant") -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(name, subject, key, 1).add_extension(x509.BasicConstraints(True, None), critical=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def _builder(name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    begin = now - datetime.timedelta(days=10)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(now + datetime.timedelta(days=days))
    )
