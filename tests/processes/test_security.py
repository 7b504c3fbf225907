"""Keys on real sockets: who is let in, what each may read and write, and who is not."""

from __future__ import annotations

import threading

import pytest
import zmq

from dafka.cluster import Cluster
from dafka.errors import HoleError, MisuseError, NotStoredError, QueryError
from dafka.groups.commit import TOPIC, Commit, CommitKey, encode
from dafka.limits import GROUP_NUMBER_MAX
from dafka.model import Partition
from dafka.node.consumer import Consumer
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.protocol.producer import VAIN_MS
from dafka.query.client import StoreClient
from dafka.records.batch import BatchBuilder, enclosed, records_of
from dafka.storage.check import check
from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.transport import sockets
from dafka.transport.access import Access, Rights
from dafka.transport.curve import authenticator, prove
from dafka.transport.keys import Credentials, new_keys
from dafka.transport.mesh import Mesh
from dafka.wire import messages
from dafka.wire.beacon import NodeBeacon, encode_node_beacon
from dafka.wire.messages import MessageId

pytestmark = [pytest.mark.net, pytest.mark.slow]

RIGHTS = {
    "alice": Rights(("orders",), ("orders",)),
    "bob": Rights(("orders", "secret"), ("secret",)),
    "mallory": Rights(("orders",), ("orders",)),
    "eve": Rights(),
    "shop": Rights(("",), ("__consumer_offsets",), groups=("shop",)),
    "office": Rights(("",), ("__consumer_offsets",)),
}


class Guarded:
    """A cluster with keys: a tower, a store, and somebody with every kind of rights."""

    def __init__(self, directory, first):
        self.tower = f"tcp://127.0.0.1:{first}"
        self.query = f"tcp://127.0.0.1:{first + 2}"
        pairs = {name: new_keys() for name in ("cluster", *RIGHTS)}
        rights = {pairs[name][0]: granted for name, granted in RIGHTS.items()}
        self.access = Access(pairs["cluster"][0], rights)
        self.who = {name: Credentials(self.access, *pair) for name, pair in pairs.items()}
        self._directory = directory

    def infrastructure(self):
        cluster = self.who["cluster"]
        return (
            Tower(Cluster(self.tower, credentials=cluster)),
            Store(
                self._directory / "store",
                Cluster(self.tower, credentials=cluster),
                query=self.query,
                durability=Durability.OS,
            ),
        )

    def producer(self, name, **settings):
        return Producer(Cluster(self.tower, credentials=self.who[name]), linger_ms=0, **settings)

    def consumer(self, name, *topics):
        return Consumer(Cluster(self.tower, credentials=self.who[name]), topics)

    def client(self, name):
        return StoreClient(self.query, timeout_ms=1_000, credentials=self.who[name])


@pytest.fixture
def guarded(tmp_path, free_ports):
    cluster = Guarded(tmp_path, free_ports(3))
    tower, cluster.store = cluster.infrastructure()
    yield cluster
    cluster.store.close()
    tower.close()


def store_one(producer, topic, value):
    return producer.send(topic, value).result(120)


def nothing_stored(producer, topic, seconds=1.5):
    producer.send(topic, b"x")
    with pytest.raises(NotStoredError):
        producer.close(seconds)


def test_the_right_key_reads_and_writes(guarded):
    with guarded.producer("alice") as alice, guarded.consumer("alice", "orders") as reader:
        store_one(alice, "orders", b"hello")
        assert reader.poll(120).value == b"hello"
    # All again out of the store, its producer gone.
    with guarded.consumer("bob", "orders") as late:
        assert late.poll(120).value == b"hello"
    with guarded.client("alice") as client:
        assert [partition.topic for partition in client.heads("orders")] == ["orders"]


def test_no_key_a_wrong_key_and_an_unknown_cluster_are_refused(guarded):
    stranger = new_keys()
    wrong_server = Access(new_keys()[0], {stranger[0]: RIGHTS["alice"]})
    wrong_client = Access(guarded.access.cluster, {stranger[0]: RIGHTS["alice"]})
    for credentials in (
        None,
        Credentials(wrong_client, *stranger),
        Credentials(wrong_server, *stranger),
    ):
        producer = Producer(Cluster(guarded.tower, credentials=credentials))
        nothing_stored(producer, "orders", 1.0)
        with StoreClient(guarded.query, 300) as client, pytest.raises(QueryError):
            client.health()
    with guarded.client("alice") as client:
        assert client.health().records == 0


def test_what_may_not_be_written_is_not_stored(guarded):
    nothing_stored(guarded.producer("alice"), "secret")
    nothing_stored(guarded.producer("eve"), "orders")
    with guarded.producer("bob") as bob:
        store_one(bob, "secret", b"mine")
    with guarded.client("bob") as client:
        assert {partition.topic for partition in client.heads("secret")} == {"secret"}
        assert client.heads("orders") == {}


def test_what_may_not_be_read_is_not_given(guarded):
    with guarded.producer("bob") as bob:
        store_one(bob, "secret", b"1")
        with guarded.consumer("alice", "secret", "secr", "orders") as alice:
            with guarded.consumer("bob", "secret") as allowed:
                store_one(bob, "secret", b"2")
                assert [allowed.poll(120).value for _ in range(2)] == [b"1", b"2"]
            assert alice.poll(1.0) is None
        with guarded.client("alice") as client:
            with pytest.raises(QueryError, match="not permitted"):
                client.heads("secret")
            with pytest.raises(QueryError, match="not permitted"):
                client.topics()
            with pytest.raises(QueryError, match="not permitted"):
                client.read(Partition("secret", bob.address), 0)


def test_who_may_commit_for_one_group_touches_no_other(guarded):
    place = Partition("orders", "AB" * 16)
    with guarded.client("office") as client:
        said = ("office", "billing", 5), ("shop", "billing", 9), ("shop", "shop", 3)
        for name, group, position in said:
            with guarded.producer(name) as producer:
                key, value = encode(CommitKey(group, place), Commit(position, position, 1))
                producer.send(TOPIC, value, key=key).result(120)
        assert {group: client.offsets(group)[place].position for group in client.groups()} == {
            "billing": 5,
            "shop": 3,
        }
        with guarded.producer("office") as producer:
            key, value = encode(CommitKey("billing", place), Commit(1, GROUP_NUMBER_MAX, 1))
            producer.send(TOPIC, value, key=key).result(120)
        assert client.offsets("billing")[place].position == 5


def test_what_is_sent_to_another_cannot_be_overheard(guarded):
    with guarded.consumer("bob", "secret") as bob, guarded.producer("bob") as producer:
        store_one(producer, "secret", b"1")
        assert bob.poll(120).value == b"1"
        eve = Cluster(guarded.tower, credentials=guarded.who["eve"])
        mesh = Mesh(eve, eve.new_address())
        try:
            for message_id in MessageId:
                mesh.listen(message_id, "")
            mesh.listen(MessageId.DIRECT_RECORDS, bob.address)
            heard = overheard(mesh, guarded, producer)
        finally:
            mesh.close(0)
    kinds = {type(message) for message in heard}
    assert not kinds & {messages.Records, messages.DirectRecords, messages.Head}


def overheard(mesh, guarded, producer, turns=150):
    """What a mesh hears while a second reader fetches everything."""
    heard, now = [], 0
    with guarded.consumer("bob", "secret") as late:
        for turn in range(turns):
            now += 20
            mesh.wake(now)
            if turn == turns // 2:
                store_one(producer, "secret", b"2")
                assert late.poll(120) is not None
            for socket in mesh.pollable:
                for event in mesh.receive(socket, now):
                    heard += [event.message] if hasattr(event, "message") else []
            mesh.pollable[1].poll(10)
    return heard


def test_a_dead_authenticator_lets_nobody_in(guarded):
    with guarded.producer("alice") as before:
        store_one(before, "orders", b"x")
        authenticator.stop()
        try:
            context = zmq.Context.instance()
            with context.socket(zmq.DEALER) as socket:
                events = socket.get_monitor_socket()
                alice = guarded.who["alice"]
                socket.set(zmq.CURVE_PUBLICKEY, alice.public.encode())
                socket.set(zmq.CURVE_SECRETKEY, alice.secret.encode())
                socket.set(zmq.CURVE_SERVERKEY, guarded.access.cluster.encode())
                socket.set(zmq.LINGER, 0)
                socket.connect(guarded.query)
                seen = set()
                for _ in range(10):
                    if not events.poll(300):
                        break
                    seen.add(int.from_bytes(events.recv_multipart()[0][:2], "little"))
                socket.disable_monitor()
                events.close()
            assert zmq.EVENT_CONNECTED in seen
            assert zmq.EVENT_HANDSHAKE_SUCCEEDED not in seen
        finally:
            authenticator.answer_for(guarded.access)
        # Who was in stays in, and who is known comes in again.
        store_one(before, "orders", b"y")
    with guarded.client("alice") as client:
        assert sum(head + 1 for head in client.heads("orders").values()) == 2


def test_another_clusters_domain_does_not_open_this_one(guarded):
    other = new_keys()
    access = Access(new_keys()[0], {other[0]: RIGHTS["bob"]})
    authenticator.answer_for(access)  # this process is in that cluster too, and knows the key there
    forged = Credentials(Access(guarded.access.cluster, {other[0]: RIGHTS["bob"]}), *other)
    nothing_stored(Producer(Cluster(guarded.tower, credentials=forged)), "secret", 1.0)


def test_towers_and_stores_need_the_clusters_key(guarded, free_ports):
    first = free_ports(2)
    with pytest.raises(MisuseError, match="need the cluster's key"):
        Tower(Cluster(f"tcp://127.0.0.1:{first}", credentials=guarded.who["alice"]))


@pytest.mark.parametrize("host", ["0.0.0.0", "*", "192.0.2.1", "example.org", "[::]"])
def test_other_hosts_need_keys_or_a_word(tmp_path, host):
    with pytest.raises(MisuseError, match="without keys"):
        Tower(f"tcp://{host}:1")
    with pytest.raises(MisuseError, match="without keys"):
        Store(tmp_path / "s", "tcp://127.0.0.1:9", query=f"tcp://{host}:1")
    with pytest.raises(MisuseError, match="without keys"):
        Producer(Cluster("tcp://127.0.0.1:9", host=host))


def forged(guarded, name, partition, store, seconds):
    """Publish for a while what would take another's partition away, or end it."""
    builder = BatchBuilder(1_000)
    builder.append(0, None, b"forged", ())
    content = enclosed(builder.build(), 3)
    lies = (
        messages.Records(*partition, 3, 1, content),
        messages.Head(*partition, FAR),
        messages.LogStart(store, *partition, FAR, partition.address),
    )
    said(guarded, name, lies, seconds)


def said(guarded, name, what, seconds):
    """Publish messages for a while, again and again."""
    cluster = Cluster(guarded.tower, credentials=guarded.who[name])
    mesh = Mesh(cluster, cluster.new_address())
    try:
        for turn in range(20 * seconds):
            mesh.wake(turn * 50)
            for socket in mesh.pollable:
                list(mesh.receive(socket, turn * 50))
            for message in what:
                mesh.publish(message)
            mesh.flush()
            mesh.pollable[0].poll(50)
    finally:
        mesh.close(0)


FAR = 1 << 62


def test_who_may_write_a_topic_does_not_touch_the_partition_of_another(guarded):
    with guarded.producer("alice") as alice, guarded.client("alice") as client:
        for value in (b"0", b"1", b"2"):
            store_one(alice, "orders", value)
        partition = Partition("orders", alice.address)
        forged(guarded, "mallory", partition, client.health().identity, 4)
        assert client.ranges("orders") == {partition: range(3)}
        store_one(alice, "orders", b"3")
        records = [one for batch in client.read(partition, 0) for one in records_of(batch)]
        assert [one.value for one in records] == [b"0", b"1", b"2", b"3"]
        with guarded.consumer("bob", "orders") as reader:
            assert [reader.poll(120).value for _ in range(4)] == [b"0", b"1", b"2", b"3"]


def test_who_reads_gives_no_producer_a_hole_by_asking_for_what_it_has_no_more(guarded):
    with guarded.producer("alice") as alice:
        store_one(alice, "orders", b"0")
        guarded.store.close()
        waiting = alice.send("orders", b"1")
        asked = messages.Fetch("orders", alice.address, "BOB", 0, 1)
        said(guarded, "bob", [asked], 2 * VAIN_MS // 1_000)
        assert not waiting.done()
        with pytest.raises(NotStoredError, match="1 record") as told:
            alice.close(0.1)
        assert not isinstance(told.value, HoleError)


def test_who_announces_the_endpoint_of_another_cuts_nobody_off(guarded, free_ports):
    host = f"127.0.0.1:{free_ports(1)}"
    credentials = guarded.who["mallory"]
    announcing = sockets.beacon_publisher()
    prove(announcing, credentials)
    announcing.connect(guarded.tower)
    forged = NodeBeacon("M" * 32, "127.0.0.1", int(host.rpartition(":")[2]), credentials.public)
    stopped = threading.Event()

    def announce():
        while not stopped.wait(0.1):
            for frame in encode_node_beacon(forged)[:-1]:
                announcing.send(frame, zmq.SNDMORE)
            announcing.send(encode_node_beacon(forged)[-1])

    thread = threading.Thread(target=announce)
    thread.start()
    try:
        with guarded.consumer("bob", "orders") as reader:
            assert reader.poll(2) is None  # it has heard of the endpoint from mallory first
            cluster = Cluster(guarded.tower, credentials=guarded.who["alice"], host=host)
            with Producer(cluster, linger_ms=0) as alice:
                store_one(alice, "orders", b"stored")
            assert reader.poll(120).value == b"stored"
    finally:
        stopped.set()
        thread.join()
        announcing.close(0)


def test_two_keys_of_one_kind_are_both_heard(guarded):
    with guarded.producer("alice") as alice, guarded.producer("mallory") as mallory:
        store_one(alice, "orders", b"a")
        store_one(mallory, "orders", b"m")
    with guarded.producer("alice") as again:
        store_one(again, "orders", b"a")
    with guarded.client("alice") as client:
        assert sum(map(len, client.ranges("orders").values())) == 3


def test_a_spool_of_another_key_is_refused(guarded, tmp_path):
    with guarded.producer("alice", spool=tmp_path / "spool") as alice:
        store_one(alice, "orders", b"a")
        address = alice.address
    with pytest.raises(MisuseError, match=f"{address} is not of this key"):
        guarded.producer("mallory", spool=tmp_path / "spool")
    with guarded.producer("alice", spool=tmp_path / "spool") as alice:
        assert alice.address == address
        store_one(alice, "orders", b"b")


def test_copying_takes_a_key_that_may_mirror(guarded):
    cluster = Cluster(guarded.tower, credentials=guarded.who["alice"])
    with pytest.raises(MisuseError, match="has no right to mirror"):
        cluster.checked_mirroring()
    infrastructure = Cluster(guarded.tower, credentials=guarded.who["cluster"])
    assert infrastructure.checked_mirroring() is infrastructure


def test_where_all_may_come_in_a_lie_deletes_nothing(tmp_path, free_ports):
    """Whoever may come in, and says he is a store, may still bring a partition to a stand."""
    first = free_ports(3)
    tower, query = f"tcp://127.0.0.1:{first}", f"tcp://127.0.0.1:{first + 2}"
    data = tmp_path / "store"
    with (
        Tower(tower),
        Store(data, tower, query=query, durability=Durability.OS),
        Producer(tower, linger_ms=0) as producer,
        StoreClient(query) as client,
    ):
        for value in (b"0", b"1", b"2"):
            store_one(producer, "orders", value)
        partition = Partition("orders", producer.address)
        mesh = Mesh(Cluster(tower), "EE" * 16)
        store, liar = client.health().identity, "FF" * 16
        lies = (
            messages.Head(*partition, FAR),
            messages.DirectHead(store, *partition, FAR, liar),
            messages.LogStart(store, *partition, FAR, liar),
        )
        turn = 0
        while client.ranges()[partition].stop < FAR:
            mesh.wake(turn * 50)
            for socket in mesh.pollable:
                list(mesh.receive(socket, turn * 50))
            for lie in lies:
                mesh.publish(lie)
            mesh.flush()
            mesh.pollable[0].poll(50)
            turn += 1
            assert turn < 1_000
        mesh.close(0)
        assert client.ranges() == {partition: range(FAR)}
        (batch, *_) = client.read(partition, 0)
        assert next(records_of(batch)).value == b"0"
    log = LmdbLog(data)
    findings = check(log)
    log.close()
    assert findings.problems == []
    assert findings.gaps == [f"orders/{partition.address}: 3 to {FAR - 1}"]
    assert findings.records == 3
