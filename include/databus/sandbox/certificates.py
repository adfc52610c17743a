"""A certificate authority of a sandbox's own, and the passwords of its secured servers: made once, kept in its home.

Certificates follow RFC 5280; host names stand in subjectAltName (RFC 6125), never in the common name alone. Keys are
PKCS 8 without encryption, which OpenSSL, Java's PEM key stores and librdkafka all read.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from databus.sandbox.cache import file_lock

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, CertificateBuilder, GeneralName, Name

_YEAR = timedelta(days=365)
_HOUR = timedelta(hours=1)
SERVER_HOSTS = ("localhost", "127.0.0.1")
ACCOUNT = "databus"
"""Login on the secured Kafka, OpenSearch and ZooKeeper; its password is `authority(home).password("<server>")`."""


@dataclass(frozen=True)
class KeyPair:
    """Files of one certificate.

    Attributes:
        certificate: PEM.
        key: PEM, PKCS 8, not encrypted.
        bundle: both in one file, as Java's PEM key stores want them.
    """

    certificate: Path
    key: Path
    bundle: Path


@dataclass(frozen=True)
class Authority:
    """A CA in a folder: what is asked for is made the first time and read afterwards.

    Attributes:
        folder: its files; `ca.pem` is what clients trust.
    """

    folder: Path

    @property
    def certificate(self) -> Path:
        """The CA's own certificate."""
        self._own()
        return self.folder / "ca.pem"

    def issue(
        self,
        name: str,
        hosts: Sequence[str] = SERVER_HOSTS,
        *,
        valid: tuple[timedelta, timedelta] = (-_HOUR, _YEAR),
    ) -> KeyPair:
        """Return the key pair called `name`, for servers and clients alike.

        Args:
            name: name of the files, and the subject's common name.
            hosts: host names and addresses that a server answers under.
            valid: from and until, counted from now; a past one makes an expired certificate.
        """
        pair = KeyPair(*(self.folder / f"{name}.{kind}" for kind in ("crt", "key", "pem")))
        authority = self._own()
        with file_lock(self.folder / ".lock"):
            if not pair.bundle.exists():
                self._issue(pair, name, hosts, valid, authority)
        return pair

    def password(self, account: str) -> str:
        """Return the password of an account: random, the same at each call."""
        path = self.folder / f"{account}.password"
        with file_lock(self.folder / ".lock"):
            if not path.exists():
                _write_secret(path, f"Pw{secrets.token_hex(12)}".encode())
            return path.read_text(encoding="ascii")

    def _own(self) -> KeyPair:
        pair = KeyPair(self.folder / "ca.pem", self.folder / "ca.key", self.folder / "ca.bundle.pem")
        with file_lock(self.folder / ".lock"):
            if not pair.bundle.exists():
                self._issue(pair, "databus sandbox CA", (), (-_HOUR, 10 * _YEAR), None)
        return pair

    @staticmethod
    def _issue(
        pair: KeyPair,
        name: str,
        hosts: Sequence[str],
        valid: tuple[timedelta, timedelta],
        authority: KeyPair | None,
    ) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives import serialization as forms
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + valid[0])
            .not_valid_after(now + valid[1])
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        if authority is None:
            signed = _as_authority(made, subject).sign(key, hashes.SHA256())
            chain = b""
        else:
            parent = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
            signer = forms.load_pem_private_key(authority.key.read_bytes(), None)
            if not isinstance(signer, ec.EllipticCurvePrivateKey):
                raise TypeError(f"{authority.key} holds another kind of key")
            signed = _as_member(made, parent, hosts).sign(signer, hashes.SHA256())
            chain = authority.certificate.read_bytes()
        text = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
        pair.certificate.write_bytes(signed.public_bytes(forms.Encoding.PEM))
        _write_secret(pair.key, text)
        _write_secret(pair.bundle, text + pair.certificate.read_bytes() + chain)


def authority(home: Path) -> Authority:
    """The certificate authority of a sandbox's home; makes nothing yet."""
    return Authority(home / "tls")


def _as_authority(made: CertificateBuilder, subject: Name) -> CertificateBuilder:
    from cryptography import x509

    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    made = made.issuer_name(subject).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return made.add_extension(usage, critical=True)


def _as_member(made: CertificateBuilder, parent: Certificate, hosts: Sequence[str]) -> CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer = parent.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    made = (
        made.issuer_name(parent.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
    )
    if not hosts:
        return made
    return made.add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)


def _general_name(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
