"""How a client proves who it is, step by step, and what it may before and after."""

from __future__ import annotations

import asyncio
import time

import pytest
from scramp import ScramClient

from dafka.errors import RequestError
from dafka.gateway.broker import ErrorCode
from dafka.gateway.connection import UNPROVEN_BYTES_MAX, ServerSettings
from dafka.gateway.handlers import Handlers
from dafka.gateway.session import LATE_S, Session
from dafka.gateway.users import load_users
from dafka.gateway.wire import Api, parse
from dafka.testing.broker import MemoryBroker
from tests.support.certificates import write_users
from tests.support.kafka_messages import answered, request
from tests.support.kafka_server import served

pytestmark = pytest.mark.net

PLAIN = "PLAIN"


class Client:
    """One connection's session, and what it answers."""

    def __init__(self, users, subject=""):
        self.session = Session(Handlers(MemoryBroker(), lambda: 0), users, late_s=0.0)
        self.session.show_certificate(subject)

    def ask(self, api, version, **values):
        asked = parse(request(api, version, **values))
        return answered(asyncio.run(self.session.answer(asked)), api, version)[1]

    def choose(self, mechanism):
        return self.ask(Api.SASL_HANDSHAKE, 1, mechanism=mechanism)

    def show(self, shown, version=2):
        return self.ask(Api.SASL_AUTHENTICATE, version, auth_bytes=shown)

    def topics(self):
        return self.ask(Api.METADATA, 5, topics=None, allow_auto_topic_creation=False)


@pytest.fixture
def known(tmp_path):
    file, passwords = write_users(tmp_path, shop={"read": ["orders*"]})
    return load_users(file), passwords["shop"]


def plain(name, password, as_whom=""):
    return f"{as_whom}\0{name}\0{password}".encode()


def test_where_there_are_no_users_nobody_has_to_be_one():
    client = Client(None)
    assert client.session.proven
    client.topics()
    assert client.choose(PLAIN).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.show(b"").error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_who_has_proven_nothing_may_ask_for_versions_alone(known):
    client = Client(known[0])
    assert client.ask(Api.API_VERSIONS, 3).error_code == 0
    assert client.choose("GSSAPI").error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert client.show(b"").error_code == ErrorCode.ILLEGAL_SASL_STATE
    with pytest.raises(RequestError, match="unproven"):
        client.topics()


@pytest.mark.parametrize("as_whom", ["", "shop"])
@pytest.mark.parametrize("version", range(3))
def test_a_password_as_it_is(known, as_whom, version):
    users, password = known
    client = Client(users)
    assert client.choose(PLAIN).mechanisms == [PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512"]
    shown = client.show(plain("shop", password, as_whom), version)
    assert (shown.error_code, shown.auth_bytes) == (0, b"")
    assert client.session.proven
    client.topics()
    assert client.choose(PLAIN).error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("right", [True, False])
def test_a_proof_of_the_password(known, mechanism, right):
    users, password = known
    client, other = Client(users), ScramClient([mechanism], "shop", password if right else "x")
    client.choose(mechanism)
    challenge = client.show(other.get_client_first().encode())
    assert not client.session.proven
    other.set_server_first(challenge.auth_bytes.decode())
    told = client.show(other.get_client_final().encode())
    assert client.session.proven == right
    if right:
        other.set_server_final(told.auth_bytes.decode())
    else:
        assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    "shown",
    [
        b"",
        b"\xff",
        b"shop",
        b"\0shop\0",
        b"\0shop\0\0",
        plain("shop", "wrong"),
        plain("other", "wrong"),
        plain("", ""),
        plain("shop", "x" * 512),
    ],
)
def test_who_fails_is_told_the_same_whatever_was_wrong_and_asks_nothing_more(known, shown):
    client = Client(known[0])
    client.choose(PLAIN)
    told = client.show(shown)
    assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert told.error_message == "no user has these credentials by PLAIN"
    with pytest.raises(RequestError, match="credentials"):
        client.ask(Api.API_VERSIONS, 0)


def test_nobody_is_somebody_else(known):
    users, password = known
    client = Client(users)
    client.choose(PLAIN)
    told = client.show(plain("shop", password, as_whom="other"))
    assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_certificate_is_enough_if_it_names_a_user(known):
    assert Client(known[0], subject="shop").session.proven
    assert not Client(known[0], subject="other").session.proven
    assert not Client(known[0], subject="").session.proven


def test_who_guesses_waits_for_each_answer(known):
    with served(users=known[0]) as gateway, gateway.client() as client:
        client.ask(Api.SASL_HANDSHAKE, 1, mechanism=PLAIN)
        began = time.monotonic()
        told = client.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=plain("shop", "wrong"))
        assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert time.monotonic() - began >= LATE_S
        client.send(Api.API_VERSIONS, 0)
        assert client.is_closed()


def test_a_name_that_takes_long_to_fold_is_not_looked_at(known):
    client = Client(known[0])
    client.choose("SCRAM-SHA-256")
    told = client.show(f"n,,n={chr(0xFDFA) * 200},r=abc".encode())
    assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_who_has_one_kind_of_password_only_may_show_it_as_it_is(tmp_path):
    file, passwords = write_users(tmp_path, shop={})
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if not line.startswith("scram-sha-256")))
    client = Client(load_users(file))
    client.choose(PLAIN)
    assert client.show(plain("shop", passwords["shop"])).error_code == 0


def test_those_who_prove_nothing_keep_nobody_out(known):
    users, password = known
    with served(ServerSettings(unproven_max=3), users=users) as gateway:
        silent = [gateway.client() for _ in range(5)]
        with gateway.client() as client:
            client.ask(Api.SASL_HANDSHAKE, 1, mechanism=PLAIN)
            shown = plain("shop", password)
            assert client.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=shown).error_code == 0
            assert silent[0].is_closed()
            assert client.ask(Api.METADATA, 5, topics=None).controller_id >= 0
        for one in silent:
            one.socket.close()


def test_who_proves_nothing_is_disconnected_and_holds_little(known):
    with served(ServerSettings(unproven_s=0.5), users=known[0]) as gateway:
        with gateway.client() as client:
            assert client.ask(Api.API_VERSIONS, 0).error_code == 0
            assert client.is_closed()
        with gateway.client() as client:
            client.send_frame(b"\0" * (UNPROVEN_BYTES_MAX + 1))
            assert client.is_closed()
