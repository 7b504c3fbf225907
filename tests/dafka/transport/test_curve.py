"""The parts; tests/processes/test_security.py has them all on real sockets."""

from __future__ import annotations

import pytest
import zmq

from dafka.errors import MisuseError
from dafka.transport import sockets
from dafka.transport.access import Access, Rights
from dafka.transport.curve import (
    Authenticator,
    authenticator,
    checked_binding,
    checked_infrastructure,
    guard,
    prove,
    user_of,
)
from dafka.transport.keys import Credentials, new_keys

WAIT_MS = 60_000


@pytest.fixture
def people():
    """A cluster's own credentials, and those of somebody it knows."""
    cluster, other = new_keys(), new_keys()
    access = Access(cluster[0], {other[0]: Rights()})
    return Credentials(access, *cluster), Credentials(access, *other)


def asked(server_credentials, client_credentials):
    """What a router hears of a dealer's question: the question and the asker's key, or None."""
    router, dealer = sockets.router(), sockets.dealer()
    try:
        guard(router, server_credentials)
        prove(dealer, client_credentials)
        port = router.bind_to_random_port("tcp://127.0.0.1")
        dealer.connect(f"tcp://127.0.0.1:{port}")
        if not dealer.poll(300, zmq.POLLOUT):
            return None
        dealer.send(b"question")
        assert router.poll(WAIT_MS)
        _, question = router.recv_multipart(copy=False)
        return question.bytes, user_of(question)
    finally:
        router.close()
        dealer.close()


def test_without_keys_nothing_is_proved():
    assert asked(None, None) == (b"question", "")


def test_the_key_that_was_proved_comes_with_the_message(people):
    cluster, other = people
    assert asked(cluster, other) == (b"question", other.public)
    assert asked(cluster, cluster) == (b"question", cluster.public)


def test_a_stranger_is_not_let_in(people):
    cluster, _ = people
    public, secret = new_keys()
    assert asked(cluster, Credentials(cluster.access, public, secret)) is None
    assert asked(cluster, None) is None
    assert asked(None, cluster) is None


def test_who_is_shut_out_is_not_let_in_and_others_are(people):
    cluster, other = people
    authenticator.shut_out(other.public)
    assert asked(cluster, other) is None
    assert asked(cluster, cluster) == (b"question", cluster.public)


def test_a_key_is_shut_out_for_a_while():
    own = Authenticator()
    own.shut_out("KEY", 0)
    assert not own.is_shut_out("KEY")
    own.shut_out("KEY")
    assert own.is_shut_out("KEY")
    assert not own.is_shut_out("OTHER")


def test_nobody_is_let_in_when_nobody_answers(people):
    cluster, other = people
    authenticator.answer_for(cluster.access)
    authenticator.stop()
    authenticator.stop()
    router, dealer = sockets.router(), sockets.dealer()
    for option, value in (
        (zmq.CURVE_SERVER, 1),
        (zmq.CURVE_SECRETKEY, cluster.secret.encode()),
        (zmq.ZAP_DOMAIN, cluster.access.domain.encode()),
        (zmq.ZAP_ENFORCE_DOMAIN, 1),
    ):
        router.set(option, value)
    endpoint = f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}"
    prove(dealer, other)
    dealer.connect(endpoint)
    assert not dealer.poll(300, zmq.POLLOUT)
    dealer.close()  # one that asks while a domain is not known yet is told no, and asks no more
    authenticator.answer_for(cluster.access)
    dealer = sockets.dealer()
    prove(dealer, other)
    dealer.connect(endpoint)
    assert dealer.poll(WAIT_MS, zmq.POLLOUT)
    router.close()
    dealer.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "[::1]", "localhost"])
def test_this_machines_own_hosts_need_no_keys(host):
    checked_binding(host, None, insecure=False)
    checked_infrastructure(f"tcp://{host}:5556", None, insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "*", "10.0.0.1", "[::]", "example.org", "1.127.0.1"])
def test_others_need_keys_or_a_word(people, host):
    with pytest.raises(MisuseError, match="without keys"):
        checked_binding(host, None, insecure=False)
    with pytest.raises(MisuseError, match="without keys"):
        checked_infrastructure(f"tcp://{host}:5556", None, insecure=False)
    checked_binding(host, None, insecure=True)
    checked_binding(host, people[1], insecure=False)


def test_towers_and_query_ports_take_the_clusters_key(people):
    cluster, other = people
    checked_infrastructure("tcp://10.0.0.1:5556", cluster, insecure=False)
    with pytest.raises(MisuseError, match="need the cluster's key"):
        checked_infrastructure("tcp://127.0.0.1:5556", other, insecure=False)
