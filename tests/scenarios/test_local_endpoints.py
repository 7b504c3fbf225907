"""Clusters without a network: ipc between the processes of a machine, inproc within one."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.process import metrics
from dafka.query.client import StoreClient
from dafka.storage.lmdb_log import Durability
from dafka.transport.access import Access, Rights
from dafka.transport.keys import Credentials, new_keys
from tests.support.small_cluster import FAST_PRESENCE, endpoints, peers, said, send, values

pytestmark = pytest.mark.net


@pytest.fixture
def directory():
    """Short: the address of a Unix socket is."""
    with TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def opened():
    with ExitStack() as stack:
        yield stack.enter_context


def entered(tower, host):
    """The cluster as nodes that notice quickly enter it."""
    return Cluster(tower, host=host, presence=FAST_PRESENCE)


@pytest.fixture(params=["ipc", "inproc"])
def places(request, directory):
    """Where a tower, a query port and nodes are."""
    if request.param == "ipc":
        return f"ipc://{directory}/tower", f"ipc://{directory}/query", f"ipc://{directory}"
    name = directory.name
    return f"inproc://{name}/tower", f"inproc://{name}/query", "inproc://"


def test_all_roles_without_a_network(places, directory, opened, until):
    tower, query, host = places
    opened(Tower(tower))
    data = directory / "data"
    store = opened(Store(data, entered(tower, host), query=query, durability=Durability.OS))
    producer = opened(Producer(entered(tower, host)))
    consumer = opened(Consumer(entered(tower, host), "orders"))
    send(producer, *range(100))
    assert values(consumer, 100) == list(range(100))
    until(lambda: peers(store, producer, consumer) == [2, 2, 2])
    assert all(one.startswith(host) for one in endpoints(consumer))
    with StoreClient(query) as client:
        assert client.topics() == ["orders"]


def test_peers_without_a_network_are_left_and_found_again(places, opened, until):
    tower, _, host = places
    opened(Tower(tower))
    consumer = opened(Consumer(entered(tower, host), "orders"))
    left = metrics.PEERS_LEFT.labels("consumer")._value
    before = left.get()
    for number in range(1, 3):
        dying = Producer(entered(tower, host))
        until(lambda: peers(consumer) == [1])
        dying.close()
        until(lambda: peers(consumer) == [0])
        until(lambda number=number: left.get() == before + number)  # counted once it is left


def test_a_tower_without_a_network_may_come_late_and_go_and_come(places, opened, caplog, until):
    tower, _, host = places
    one, other = (opened(Producer(entered(tower, host))) for _ in range(2))
    for _ in range(2):
        until(lambda: len(said(caplog, "tower is not heard")) == 2)
        caplog.clear()
        running = Tower(tower)
        until(lambda: len(said(caplog, "tower is heard")) == 2)
        until(lambda: peers(one, other) == [1, 1])
        running.close()


def test_a_tower_may_come_when_those_who_waited_for_it_are_gone(places, until, reopened):
    tower, _, host = places
    for _ in range(3):
        Producer(entered(tower, host)).close()
        with reopened(lambda: Tower(tower)):
            pair = [Producer(entered(tower, host)) for _ in range(2)]
            until(lambda pair=pair: peers(*pair) == [1, 1])
            for one in pair:
                one.close()


def test_nodes_of_tcp_and_of_ipc_find_each_other_at_one_tower(directory, opened, free_ports, until):
    tower = f"tcp://127.0.0.1:{free_ports(2)}"
    opened(Tower(tower))
    one, other = (
        opened(Producer(tower)),
        opened(Producer(Cluster(tower, host=f"ipc://{directory}"))),
    )
    until(lambda: peers(one, other) == [1, 1])
    assert [endpoints(one)[0][:6], endpoints(other)[0][:6]] == ["ipc://", "tcp://"]


@pytest.mark.slow
def test_commands_over_ipc(directory):
    tower, query, host = f"ipc://{directory}/t", f"ipc://{directory}/q", f"ipc://{directory}"

    def command(*words):
        return [sys.executable, "-m", "dafka", *words]

    def run(*words, given=b""):
        done = subprocess.run(
            command(*words), input=given, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    at = ("--tower", tower, "--host", host)
    with ExitStack() as stack:
        for words in (
            ("tower", "--endpoint", tower),
            ("store", "--data", str(directory / "data"), "--query", query, *at),
        ):
            started = subprocess.Popen(command(*words), stderr=subprocess.PIPE)
            stack.enter_context(started)
            stack.callback(started.terminate)
            assert b"is up" in started.stderr.readline()
        run("produce", "orders", *at, given=b"1\n2\n")
        assert run("consume", "orders", *at, "--from-beginning", "--max", "2") == b"1\n2\n"
        assert run("peek", "orders", "--store", query) != b""
    # Of nodes nothing is left; a tower's path may be, for the next one.
    assert {path.name for path in directory.iterdir()} <= {"data", "q", "t", "t.out"}


# What cannot work is refused with the reason.


@pytest.mark.parametrize(
    ("tower", "settings", "complaint"),
    [
        ("tcp://127.0.0.1:5", {"host": "inproc://"}, "in other processes and cannot connect"),
        ("tcp://10.0.0.1:5", {"host": "ipc:///run"}, "on other machines and cannot connect"),
        ("ipc:///run/t", {"host": "*", "insecure": True}, "sees no addresses"),
        ("ipc:///run/t", {"host": "ipc:///no/such"}, "cannot bind a node at 'ipc:///no/such'"),
        ("ipc:///run/t", {"host": "ipc:///run", "advertise": "h"}, "cannot advertise 'h'"),
        ("ipc://t", {}, "expected ipc:///PATH or inproc://NAME"),
    ],
)
def test_a_node_that_others_could_not_reach_is_refused(tower, settings, complaint):
    with pytest.raises(MisuseError, match=complaint):
        Producer(Cluster(tower, **settings))


def test_keys_are_refused_where_nobody_would_look_at_them(directory):
    cluster = new_keys()
    credentials = Credentials(Access(cluster[0], {cluster[0]: Rights()}), *cluster)
    for open_one in (
        lambda: Tower(Cluster("inproc://t", credentials=credentials)),
        lambda: Producer(Cluster("inproc://t", host="inproc://", credentials=credentials)),
        lambda: Store(
            directory, Cluster("tcp://127.0.0.1:5", credentials=credentials), query="inproc://q"
        ),
    ):
        with pytest.raises(MisuseError, match=r"inproc proves none|cluster's key"):
            open_one()


def test_a_path_in_use_is_refused_and_one_left_behind_is_not(directory, opened):
    tower = f"ipc://{directory}/tower"
    dying = subprocess.Popen(
        [sys.executable, "-c", "import sys, dafka; dafka.Tower(sys.argv[1]); input()", tower],
        stdin=subprocess.PIPE,
    )
    with dying:
        while not (directory / "tower.out").exists():
            assert dying.poll() is None
        with pytest.raises(MisuseError, match="Address already in use"):
            Tower(tower)
        dying.kill()
    assert (directory / "tower").exists()
    opened(Tower(tower))


def test_a_tower_of_the_network_does_not_tell_of_what_is_on_one_machine(
    directory, opened, free_ports, caplog, until
):
    caplog.set_level(logging.INFO)
    dropped = metrics.DROPPED.labels("tower", "beacon endpoint")._value
    before = dropped.get()
    port = free_ports(2)
    opened(Tower(Cluster(f"tcp://0.0.0.0:{port}", insecure=True)))
    opened(Producer(Cluster(f"tcp://127.0.0.1:{port}", host=f"ipc://{directory}")))
    until(lambda: dropped.get() > before)
