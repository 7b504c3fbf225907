"""Certificates, as the libraries of those who are shown them see them."""

from __future__ import annotations

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from dafka.errors import MisuseError
from dafka.process.authority import KeyPair, new_authority, new_certificate
from dafka.process.roles import ROLES, SERVING

NOW = datetime.now(UTC).replace(microsecond=0)
HOSTS = ["node-a.example", "127.0.0.1", "[::1]"]


@pytest.fixture(scope="module")
def authority():
    return new_authority(NOW)


def endpoint(authority, shown, directory, *, server):
    """One end of TLS that trusts the authority and shows a certificate."""
    side = ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT
    context = ssl.SSLContext(side)
    context.load_verify_locations(cadata=authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    file = directory / ("server.pem" if server else "client.pem")
    file.write_text(shown.key + shown.certificate)
    context.load_cert_chain(file)
    return context


def meet(authority, server, client, host, directory):
    """Let both sides shake hands in memory; what the server sees of the client."""
    pipes = [ssl.MemoryBIO() for _ in range(4)]
    there = endpoint(authority, server, directory, server=True)
    here = endpoint(authority, client, directory, server=False)
    ends = [
        there.wrap_bio(pipes[0], pipes[1], server_side=True),
        here.wrap_bio(pipes[2], pipes[3], server_hostname=host),
    ]
    for _ in range(10):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
            pipes[2].write(pipes[1].read())
            pipes[0].write(pipes[3].read())
    return ends[0].getpeercert()


@pytest.mark.parametrize("host", ["node-a.example", "127.0.0.1", "::1"])
@pytest.mark.parametrize("role", ["controller", "operator", "viewer"])
def test_a_replica_is_believed_at_its_hosts_and_sees_who_comes(authority, tmp_path, host, role):
    replica = new_certificate(authority, "replica", HOSTS, NOW)
    client = new_certificate(authority, role, HOSTS, NOW)
    seen = meet(authority, replica, client, host, tmp_path)
    assert [one for one in seen["subjectAltName"] if one[0] == "URI"] == [
        ("URI", f"urn:dafka:role:{role}")
    ]


def test_a_controller_is_believed_at_its_hosts_by_those_who_ask_it(authority, tmp_path):
    controller = new_certificate(authority, "controller", HOSTS, NOW)
    client = new_certificate(authority, "operator", HOSTS, NOW)
    seen = meet(authority, controller, client, "node-a.example", tmp_path)
    assert seen["subjectAltName"] == (("URI", "urn:dafka:role:operator"),)


def test_a_replica_is_not_believed_elsewhere(authority, tmp_path):
    replica = new_certificate(authority, "replica", HOSTS, NOW)
    client = new_certificate(authority, "controller", [], NOW)
    with pytest.raises(ssl.SSLCertVerificationError, match="node-b"):
        meet(authority, replica, client, "node-b.example", tmp_path)


@pytest.mark.parametrize("server", [role for role in ROLES if role not in SERVING])
def test_nobody_who_only_connects_passes_for_one_who_serves(authority, tmp_path, server):
    one, other = (new_certificate(authority, role, HOSTS, NOW) for role in (server, "controller"))
    with pytest.raises(ssl.SSLError):
        meet(authority, one, other, "node-a.example", tmp_path)


def test_a_replica_does_not_pass_for_a_controller(authority, tmp_path):
    one, other = (new_certificate(authority, "replica", HOSTS, NOW) for _ in range(2))
    with pytest.raises(ssl.SSLError, match="purpose"):
        meet(authority, one, other, "node-a.example", tmp_path)


def test_certificates_of_another_authority_are_refused(authority, tmp_path):
    replica = new_certificate(authority, "replica", HOSTS, NOW)
    stranger = new_certificate(new_authority(NOW), "controller", [], NOW)
    with pytest.raises(ssl.SSLError):
        meet(authority, replica, stranger, "node-a.example", tmp_path)


def test_one_that_has_expired_is_refused(authority, tmp_path):
    replica = new_certificate(authority, "replica", HOSTS, NOW - timedelta(days=366))
    client = new_certificate(authority, "controller", [], NOW)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        meet(authority, replica, client, "node-a.example", tmp_path)


@pytest.mark.parametrize("key", ["", "no key", "-----BEGIN PRIVATE KEY-----\nAA==\n"])
def test_an_authority_that_cannot_be_read_is_told(authority, key):
    with pytest.raises(MisuseError, match="the authority cannot be read"):
        new_certificate(KeyPair(authority.certificate, key), "replica", [], NOW)


def test_a_host_that_is_no_name_is_told(authority):
    with pytest.raises(MisuseError, match="host 'm\xfcnchen' cannot be used"):
        new_certificate(authority, "replica", ["m\xfcnchen"], NOW)
