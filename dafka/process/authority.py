"""A small authority for TLS, and certificates of it: the only importer of `cryptography`.

Each certificate names a role: what its holder is. Who serves has one with the names of its hosts,
and one of those who connect is good for that alone; so nobody passes for another.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dafka.errors import MisuseError
from dafka.process.roles import CONNECTING, ROLES, SERVING, uri_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

AUTHORITY_DAYS = 3_650
CERTIFICATE_DAYS = 365

_EARLIER = timedelta(hours=1)
"""Clocks of other hosts may be behind."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, PEM both."""

    certificate: str
    key: str


def new_authority(now: datetime) -> KeyPair:
    """Make an authority.

    Args:
        now: From when on it is valid.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("authority")
    builder = _builder(name, name, key.public_key(), now, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    return _signed(builder, key, key)


def new_certificate(authority: KeyPair, role: str, hosts: Sequence[str], now: datetime) -> KeyPair:
    """Make a certificate of an authority.

    Args:
        authority: Whose.
        role: One of `ROLES`.
        hosts: Names and addresses at which its holder serves; heeded for those who serve.
        now: From when on it is valid.

    Raises:
        MisuseError: The authority cannot be read, or a host is no name.
    """
    assert role in ROLES
    try:
        issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
        signing = load_pem_private_key(authority.key.encode(), None)
    except (ValueError, TypeError) as error:
        raise MisuseError(f"the authority cannot be read: {error}") from error
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise MisuseError("the authority cannot be used: its key is of another kind than ours")
    serves = role in SERVING
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri_of(role))]
    names += [_host(host) for host in hosts if serves]
    uses = [ExtendedKeyUsageOID.SERVER_AUTH] if serves else []
    uses += [ExtendedKeyUsageOID.CLIENT_AUTH] if role in CONNECTING else []
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(role), issuer.subject, key.public_key(), now, CERTIFICATE_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    return _signed(builder.add_extension(known, critical=False), key, signing)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number())
    builder = builder.not_valid_before(now - _EARLIER)
    builder = builder.not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signing: ec.EllipticCurvePrivateKey,
) -> KeyPair:
    made = builder.sign(signing, SHA256())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(made.public_bytes(Encoding.PEM).decode(), secret.decode())


def _name(what: str) -> x509.Name:
    """What nobody takes for a host."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"dafka {what}")])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host.strip("[]")))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise MisuseError(f"host {host!r} cannot be used: {error}") from error
