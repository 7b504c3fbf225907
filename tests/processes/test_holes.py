"""A store that has lost its disk, and a producer that goes on: nobody has what it lacks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial

import pytest

from dafka.cluster import Cluster
from dafka.errors import HoleError, NotStoredError, RefusedError
from dafka.model import Partition
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.process.clock import now_ms
from dafka.protocol.producer import VAIN_MS
from dafka.query.client import StoreClient
from dafka.storage.lmdb_log import Durability
from dafka.transport.mesh import Mesh
from dafka.wire import messages
from dafka.wire.messages import MessageId
from tests.support.json_outputs import rows_of

pytestmark = [pytest.mark.net, pytest.mark.slow]


def holes(query, *words):
    done = subprocess.run(
        [sys.executable, "-m", "dafka", "holes", "--store", query, "--json", *words],
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, rows_of(done.stdout)


def test_it_says_what_it_waits_for_and_goes_on_without_when_told(
    tmp_path, free_ports, reopened, until
):
    first = free_ports(3)
    tower, query = f"tcp://127.0.0.1:{first}", f"tcp://127.0.0.1:{first + 2}"
    data = tmp_path / "store"
    opened = partial(Store, data, tower, query=query, durability=Durability.OS)
    with reopened(partial(Tower, tower)), Producer(tower) as producer:
        with reopened(opened):
            for number in range(10):
                producer.send("orders", b"%d" % number)
            producer.flush(20)
            assert holes(query) == (0, [])
        shutil.rmtree(data)
        with reopened(opened), StoreClient(query) as client:
            stuck = [producer.send("orders", b"%d" % number) for number in range(10, 15)]
            place = Partition("orders", producer.address)
            until(lambda: client.holes() == {place: range(10)})
            # Whoever waits is told within seconds what lacks, and by which word it goes on.
            for one in stuck:
                with pytest.raises(
                    HoleError, match="dafka holes --store ENDPOINT --skip orders"
                ) as told:
                    one.result(120)
                assert (told.value.partition, told.value.expected, told.value.kept) == (
                    place,
                    0,
                    10,
                )
            later = producer.send("orders", b"15")
            with pytest.raises(HoleError):
                producer.flush(30)
            row = {**place._asdict(), "first": 0, "end": 10, "records": 10}
            assert holes(query) == (1, [row])
            with pytest.raises(RefusedError, match="waits for nothing of it up to there"):
                client.skip(place, 9)
            assert holes(query, "--skip", "other") == (1, [])
            assert holes(query, "--skip", "orders") == (0, [row])
            producer.flush(20)
            with pytest.raises(HoleError):
                later.result(0)
            until(lambda: client.holes() == {})
            with Consumer(tower, "orders") as consumer:
                assert [consumer.poll(120).value for _ in range(6)] == [
                    b"%d" % number for number in range(10, 16)
                ]


@pytest.fixture
def left_alone(tmp_path, free_ports, reopened):
    """A tower, a producer and what waits there: the store has ended that has what came before."""
    first = free_ports(3)
    tower, query = f"tcp://127.0.0.1:{first}", f"tcp://127.0.0.1:{first + 2}"
    with reopened(partial(Tower, tower)), Producer(tower) as producer:
        with Store(tmp_path / "store", tower, query=query, durability=Durability.OS):
            producer.send("orders", b"0").result(120)
        waiting = producer.send("orders", b"1")
        yield tower, producer, waiting
        with pytest.raises(NotStoredError):
            producer.close(0.1)


def test_who_reads_and_comes_late_is_no_store(left_alone):
    """Without keys anybody may ask as a store; a consumer does not."""
    tower, _, waiting = left_alone
    with Consumer(tower, "orders", start="earliest") as late:
        assert late.poll(2 * VAIN_MS / 1_000) is None, "nobody has what comes first"
    assert not waiting.done()


def test_without_keys_who_does_all_that_stores_do_is_believed(left_alone, until):
    tower, producer, waiting = left_alone
    address = "D" * 32
    mesh = Mesh(Cluster(tower), address)
    mesh.listen(MessageId.CONSUMER_HELLO, address)
    asked = messages.Fetch("orders", producer.address, address, 0, 1)

    def is_told():
        mesh.wake(now_ms())
        for socket in mesh.pollable:
            list(mesh.receive(socket, now_ms()))
        mesh.publish(asked)
        return waiting.done()

    try:
        until(is_told)
    finally:
        mesh.close(0)
    assert isinstance(waiting.exception(), HoleError)
