"""Files for what speaks HTTP and Kafka: tokens, passwords, and certificates of one authority."""

from __future__ import annotations

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from dafka.gateway.users import new_password, user_entry
from dafka.process.web_access import entry, new_token


def write_web(directory, *, tls=False, **may):
    """Write `web.toml`, a certificate for this machine if `tls`; return the file and the tokens.

    Each of `may` is a name and its rights.
    """
    lines = []
    if tls:
        authority = trustme.CA()
        made = authority.issue_cert("127.0.0.1", "localhost")
        chain = b"".join(pem.bytes() for pem in made.cert_chain_pems)
        (directory / "web.crt").write_bytes(chain + authority.cert_pem.bytes())
        (directory / "web.key").write_bytes(made.private_key_pem.bytes())
        (directory / "web.key").chmod(0o600)
        lines = ['certificate = "web.crt"\n', 'certificate_key = "web.key"\n']
    tokens = {name: new_token() for name in may}
    lines += [entry(name, tokens[name], rights) for name, rights in may.items()]
    file = directory / "web.toml"
    file.write_text("".join(lines))
    return file, tokens


def _as_pkcs8(certificate):
    """The key as Java reads it, too."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_users(directory, *, tls=False, certified=(), **rules):
    """Write `kafka.toml` and certificates if `tls`; return the file and the passwords.

    Args:
        directory: Where; with `tls` it has `ca.pem`, and `NAME.pem` with its key of each user.
        tls: Whether connections are TLS, and certificates of `ca.pem` name users.
        certified: Names besides that get certificates.
        rules: Each is a name, and what it may `read`, `write`, and be a member of.
    """
    lines = []
    if tls:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(directory / "ca.pem")
        made = authority.issue_cert("127.0.0.1", "localhost")
        made.private_key_and_cert_chain_pem.write_to_path(directory / "kafka.pem")
        (directory / "kafka.pem").chmod(0o600)
        lines = ['certificate = "kafka.pem"\n', 'certificate_key = "kafka.pem"\n']
        lines += ['client_ca = "ca.pem"\n']
        for name in (*rules, *certified):
            of_user = authority.issue_cert(f"{name}@example.org", common_name=name)
            chain = b"".join(pem.bytes() for pem in of_user.cert_chain_pems)
            (directory / f"{name}.pem").write_bytes(_as_pkcs8(of_user) + chain)
    passwords = {name: new_password() for name in rules}
    lines += [user_entry(name, passwords[name], rules[name]) for name in rules]
    file = directory / "kafka.toml"
    file.write_text("".join(lines))
    file.chmod(0o600)
    return file, passwords
