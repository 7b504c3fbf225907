from __future__ import annotations

import pytest
from scramp import ScramClient
from scramp.core import Nonce

from dafka.errors import CredentialsError
from dafka.gateway.scram import (
    ITERATIONS_MAX,
    MECHANISMS,
    ScramExchange,
    Verifier,
    proves,
    verifier_of,
)


@pytest.fixture(params=MECHANISMS)
def mechanism(request):
    return request.param


def logged_in(mechanism, kept, user, password):
    """The exchange of one login, by scramp's client, which checks the server's proof, too."""
    exchange = ScramExchange(mechanism, kept)
    client = ScramClient([mechanism], user, password)
    challenge = exchange.first(client.get_client_first().encode())
    client.set_server_first(challenge.decode())
    client.set_server_final(exchange.final(client.get_client_final().encode()).decode())
    return exchange


def test_who_knows_the_password_proves_it_and_is_shown_that_the_server_knows_it(mechanism):
    kept = verifier_of(mechanism, "secret")
    exchange = logged_in(mechanism, {"shop,=": kept}.__getitem__, "shop,=", "secret")
    assert exchange.user == "shop,="


def test_who_does_not_know_it_proves_nothing(mechanism):
    kept = verifier_of(mechanism, "secret")
    with pytest.raises(CredentialsError, match="proof"):
        logged_in(mechanism, lambda _user: kept, "shop", "Secret")


def final_of(mechanism, kept, nonce_of):
    """What is answered to a client whose proof is right, and whose nonce is made of both."""
    exchange = ScramExchange(mechanism, lambda _user: kept)
    client = ScramClient([mechanism], "shop", "secret", c_nonce="mine")
    challenge = exchange.first(client.get_client_first().encode()).decode()
    client.set_server_first(challenge)
    both = challenge.partition(",")[0].removeprefix("r=")
    client.nonce = Nonce(nonce_of(both.removeprefix("mine")))
    client.set_server_final(exchange.final(client.get_client_final().encode()).decode())


def test_librdkafka_before_2_6_1_says_its_nonce_twice_and_proves_it(mechanism):
    kept = verifier_of(mechanism, "secret")
    final_of(mechanism, kept, lambda servers: f"minemine{servers}")
    with pytest.raises(CredentialsError, match="proof"):
        final_of(mechanism, verifier_of(mechanism, "Secret"), lambda servers: f"minemine{servers}")


@pytest.mark.parametrize("said", ["{}", "mine", "minemine", "other{}", "othermine{}", "mine{}x"])
def test_a_proof_with_another_nonce_is_none(mechanism, said):
    with pytest.raises(CredentialsError, match="proof"):
        final_of(mechanism, verifier_of(mechanism, "secret"), said.format)


def test_a_password_as_it_is_proves_the_same(mechanism):
    kept = verifier_of(mechanism, "secret")
    assert proves(kept, mechanism, "secret")
    assert not proves(kept, mechanism, "secret ")
    with pytest.raises(CredentialsError, match="password"):
        verifier_of(mechanism, "\x07")


def test_what_is_kept_is_written_and_read_and_differs_each_time(mechanism):
    kept = verifier_of(mechanism, "secret")
    assert Verifier.read(kept.written()) == kept
    assert verifier_of(mechanism, "secret") != kept
    assert "secret" not in kept.written()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4096",
        "4096:AA==:AA==",
        "4095:AA==:AA==:AA==",
        f"{ITERATIONS_MAX + 1}:AA==:AA==:AA==",
        "many:AA==:AA==:AA==",
        "4096::AA==:AA==",
        "4096:AA==:AA==:AA",
        "4096:AA==:AA==:AA==:AA==",
    ],
)
def test_what_is_no_verifier_is_told(text):
    with pytest.raises(ValueError):  # noqa: PT011 - in words nobody reads
        Verifier.read(text)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"n,,",
        b"n,,n=,r=",
        b"n,,n=shop",
        b"n,,n==,r=x",
        b"p=tls-unique,,n=shop,r=x",
        b"n,a=other,n=shop,r=\0",
        b"n,," + b"x" * 10_000,
    ],
)
def test_what_is_no_first_message_is_refused(mechanism, message):
    exchange = ScramExchange(mechanism, lambda _user: verifier_of(mechanism, "secret"))
    with pytest.raises(CredentialsError):
        exchange.first(message)


@pytest.mark.parametrize("message", [b"", b"\xff", b"c=biws", b"c=,r=,p=", b"c=biws,r=x,p=!"])
def test_what_is_no_proof_is_refused(mechanism, message):
    exchange = ScramExchange(mechanism, lambda _user: verifier_of(mechanism, "secret"))
    exchange.first(b"n,,n=shop,r=abc")
    with pytest.raises(CredentialsError):
        exchange.final(message)
