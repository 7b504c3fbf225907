from __future__ import annotations

import socket
from contextlib import contextmanager
from threading import Thread

import pytest

from dafka.errors import MisuseError
from dafka.gateway.broker import Entrance
from dafka.gateway.users import load_users
from dafka.spark.bootstrap import with_entrance
from tests.support.certificates import write_users
from tests.support.kafka_server import served

NAME = "kafka.bootstrap.servers"
NOBODY = "127.0.0.1:9"
STORES, TOWERS = ("tcp://h:1", "tcp://h:2"), ("tcp://h:3",)

pytestmark = pytest.mark.net


@pytest.fixture
def gateway():
    with served() as gateway:
        gateway.broker.entrance = Entrance(STORES, TOWERS)
        yield gateway


def test_a_gateway_says_where_its_cluster_is(gateway):
    given = {"Kafka.Bootstrap.Servers": f"{NOBODY}, {gateway.endpoint}", "Subscribe": "Orders"}
    assert with_entrance(given) == {
        "subscribe": "Orders",
        "servers": "tcp://h:1,tcp://h:2",
        "towers": "tcp://h:3",
    }


def test_without_it_options_are_as_they_were():
    assert with_entrance({"Servers": "tcp://h:1"}) == {"servers": "tcp://h:1"}


def test_a_cluster_with_keys_wants_them(gateway):
    gateway.broker.entrance = Entrance(STORES, TOWERS, keys=True)
    given = {NAME: gateway.endpoint}
    with pytest.raises(MisuseError, match=f"{gateway.endpoint} lets in only .* say 'access' and"):
        with_entrance(given)
    keys = {"access": "a.toml", "key": "k.secret"}
    assert with_entrance(given | keys).items() > keys.items()


def test_what_anybody_may_enter_a_job_may_too(gateway):
    gateway.broker.entrance = Entrance(STORES, TOWERS, insecure=True)
    assert with_entrance({NAME: gateway.endpoint})["insecure"] == "true"
    assert with_entrance({NAME: gateway.endpoint, "insecure": "false"})["insecure"] == "false"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({NAME: "h"}, "is HOST:PORT, or several: 'h'"),
        ({NAME: ""}, "is HOST:PORT, or several: ''"),
        ({NAME: NOBODY, "servers": "tcp://h:1"}, "the cluster is named already"),
        ({NAME: NOBODY, "towers": "tcp://h:1"}, "the cluster is named already"),
        ({NAME: NOBODY, "kafka.sasl.mechanism": "PLAIN"}, "'kafka.sasl.mechanism' is for Kafka's"),
        ({NAME: NOBODY}, f"{NOBODY} does not answer .*refused.*: say 'topology' "),
    ],
)
def test_what_cannot_be_used_is_named(given, complaint):
    with pytest.raises(MisuseError, match=complaint):
        with_entrance(given)


@contextmanager
def answering(*pieces, stays=False):
    """Somebody who says this to whoever comes, and then goes; an address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            with connection:
                connection.recv(1_000)
                for piece in pieces:
                    connection.sendall(piece)
                if stays:
                    connection.recv(1)

        serving = Thread(target=serve)
        serving.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        serving.join(120)


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
        (b"\0\0\0\5", b"\0\0\0\1\0"),
        (b"\0\0\0\0",),
        (b"\xff\xff\xff\xff",),
        (b"\0\0\0\x0c" + b"\0\0\0\1" + bytes(8),),
    ],
)
def test_whoever_is_no_gateway_is_named(pieces):
    complaint = "127.0.0.1:[0-9]+ is no gateway of this product"
    with answering(*pieces) as place, pytest.raises(MisuseError, match=complaint):
        with_entrance({NAME: place})


def test_nobody_is_waited_for_for_ever():
    complaint = "127.0.0.1:[0-9]+ does not answer .*timed out"
    with answering(b"\0\0", stays=True) as place, pytest.raises(MisuseError, match=complaint):
        with_entrance({NAME: place}, timeout_s=0.05)


@pytest.mark.parametrize("tls", [False, True])
def test_where_one_has_to_log_in_nobody_else_is_told(tmp_path, tls):
    file, _ = write_users(tmp_path, tls=tls, shop={"read": ["orders*"]})
    users = load_users(file)
    with served(users=users) as gateway, pytest.raises(MisuseError, match="only who logs in: say"):
        with_entrance({NAME: gateway.endpoint})
