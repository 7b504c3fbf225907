"""`dafka keys tls`; what its certificates are good for: tests/dafka/process/test_authority.py."""

from __future__ import annotations

import ssl

import pytest

from dafka.process.roles import ROLES

pytestmark = pytest.mark.slow


def test_a_certificate_for_each_role_and_new_ones_of_the_same_authority(dafka, tmp_path):
    where = ["--dir", str(tmp_path / "keys")]
    made = dafka("keys", "tls", *where)
    assert made.returncode == 0, made.stderr
    folder = tmp_path / "keys" / "tls"
    names = {f"{name}.{kind}" for name in ("ca", *ROLES) for kind in ("pem", "key")}
    assert {file.name for file in folder.iterdir()} == names
    assert {file.stat().st_mode & 0o777 for file in folder.glob("*.key")} == {0o600}
    for role in ROLES:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{role}.pem", folder / f"{role}.key")
    before = {file.name: file.read_text() for file in folder.iterdir()}
    again = dafka("keys", "tls", *where, "--host", "node-a.example", "--host", "10.0.0.1")
    assert again.returncode == 0, again.stderr
    kept = {file.name for file in folder.iterdir() if file.read_text() == before[file.name]}
    assert kept == {"ca.pem", "ca.key"}


def test_mistakes_change_nothing(dafka, refused, tmp_path):
    where = ["--dir", str(tmp_path / "keys")]
    assert "roles and no rules" in refused(2, "keys", "tls", *where, "--read", "orders")
    assert "--host is of `dafka keys tls`" in refused(2, "keys", "shop", *where, "--host", "a")
    assert not (tmp_path / "keys").exists()
    assert dafka("keys", "tls", *where).returncode == 0
    folder = tmp_path / "keys" / "tls"
    (folder / "ca.key").chmod(0o644)
    before = (folder / "replica.pem").read_text()
    assert "ca.key" in refused(2, "keys", "tls", *where)
    (folder / "ca.key").unlink()
    assert "ca.key" in refused(2, "keys", "tls", *where)
    assert (folder / "replica.pem").read_text() == before
