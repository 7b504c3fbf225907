"""For every reason to drop something: the input that causes it, and the counter that goes up.

Most of it is sent over real sockets to a real store, tower or port; the rest, which ZeroMQ's
filters keep away, is given to a machine in its node.
"""

from __future__ import annotations

import pytest
import zmq
from prometheus_client import REGISTRY

from dafka.cluster import Cluster
from dafka.errors import QueryError, StorageError
from dafka.limits import LINKS_MAX, NAMED_MAX, QUERY_BYTES_MAX, WRITERS_MAX, PeerBounds
from dafka.node.store import Store, StoreRole
from dafka.node.tower import Tower
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings
from dafka.protocol.events import Submitted
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.protocol.presence import PresenceSettings
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.protocol.store import StoreMachine
from dafka.query import messages as query
from dafka.query.client import StoreClient
from dafka.reasons import REASONS
from dafka.records.batch import BatchBuilder
from dafka.storage.lmdb_log import Durability
from dafka.storage.memory import MemoryLog
from dafka.storage.retention import Retainer
from dafka.transport import names, sockets
from dafka.transport.access import Access, Rights
from dafka.transport.curve import prove
from dafka.transport.keys import Credentials, new_keys
from dafka.wire import messages, rfc46
from dafka.wire.primitives import number_4, number_8, string
from distributor.control.agent import ControlServer
from distributor.control.agent import answer as obey
from tests.support.hostile_node import Stranger, content, diverge, fed, garbled
from tests.support.query_port import Questions

pytestmark = [pytest.mark.net, pytest.mark.slow]


def counted(role, reason):
    labels = {"role": role, "reason": reason}
    return REGISTRY.get_sample_value("dafka_dropped_total", labels) or 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, free_ports, until):
    """A tower, a store, and a stranger whom the store is connected to."""
    first = free_ports(3)
    tower, port = f"tcp://127.0.0.1:{first}", f"tcp://127.0.0.1:{first + 2}"
    data = tmp_path_factory.mktemp("store")
    # There is room for one peer, the stranger.
    way = Cluster(tower, presence=PresenceSettings(peers_max=1))
    with Tower(tower), Store(data, way, query=port, durability=Durability.OS) as store:
        directories = lambda: tmp_path_factory.mktemp("secured")  # noqa: E731
        stranger = Stranger(tower, store, port, until, directories, free_ports)
        yield stranger
        stranger.close()


HEAD = rfc46.encode(messages.Head("flights", "AA", 0))
PLACE = string("AA") + string("flights")


def sends(*frames):
    """What the stranger publishes; the store hears everything that begins with H."""
    return "store", lambda stranger, _: stranger.sends(*frames)


def sends_head(fields):
    return sends(b"Hflights", b"\xaa\xa5H\1" + fields)


def sends_content(octets, count=1, sequence=0):
    """As a batch of a partition of its own."""

    def cause(stranger, _):
        place = ("flights", stranger.new_address(), sequence)
        stranger.says(messages.Records(*place, count, octets))

    return "store", cause


def says(make):
    """What the stranger says to the store, whose address is given."""
    return "store", lambda stranger, _: [stranger.says(one) for one in make(stranger)]


def twice(*contents):
    def make(stranger):
        place = ("flights", stranger.new_address(), 0, 1)
        return [messages.Records(*place, octets) for octets in contents]

    return says(make)


def overlapping(stranger):
    """Three good records, then five of which the first two are there and none can be read."""
    place = ("flights", stranger.new_address())
    yield messages.Records(*place, 0, 3, content(3))
    bad = garbled(content(5, 1), 90, b"\xff" * 20)
    yield messages.DirectRecords(stranger.store, *place, 1, 5, bad)


def refusing_disk(stranger, monkeypatch):
    def append(*_, **__):
        raise StorageError("no room")

    monkeypatch.setattr(stranger.role._log, "append", append)
    stranger.says(messages.Records("flights", stranger.new_address(), 0, 1, content()))
    stranger.until(lambda: counted("store", "append failed"))


def full_of_answers(stranger, monkeypatch):
    """Who asks has not read enough of its answers; see `test_unread` for what that takes."""
    monkeypatch.setattr(stranger.role._server, "reply", lambda *_: False)
    stranger.asks(stranger.query, (b"12345678", query.encode(query.HealthRequest())))


def one_more_peer(stranger, _):
    stranger.announces([b"B", b"ONE MORE", b"127.0.0.1", b"9"])


def announces_unknown_name(stranger, monkeypatch):
    asked = []

    def nobody_knows(name, *_, **__):
        asked.append(name)
        raise OSError

    monkeypatch.setattr(names.socket, "getaddrinfo", nobody_knows)
    beacon = [b"B", b"AA", b"nobody.invalid", b"9"]
    stranger.announces(beacon)
    stranger.until(lambda: asked)
    stranger.announces(beacon)


def announces(*frames):
    return "tower", lambda stranger, _: stranger.announces(frames)


def asks(*frames):
    return "store", lambda stranger, _: stranger.asks(stranger.query, frames)


def commands(*frames):
    def cause(stranger, _):
        server = ControlServer(f"ipc://{stranger.directory()}/control.sock", [])
        try:
            before = sum(counted("control", reason) for reason in REASONS)
            stranger.asks(server.endpoint, frames)
            stranger.until(lambda: sum(counted("control", reason) for reason in REASONS) > before)
        finally:
            server.close()

    return "control", cause


def gives(name, make, *events):
    """What a machine in a node is given."""
    return name, lambda *_: fed(name, make(), *events)


def with_keys(act):
    """A cluster with keys, and somebody in it who may do nothing at all."""

    def cause(stranger, _):
        (public, secret), (other, other_secret) = new_keys(), new_keys()
        access = Access(public, {other: Rights()})
        first = stranger.free_ports(3)
        tower, port = f"tcp://127.0.0.1:{first}", f"tcp://127.0.0.1:{first + 2}"
        ours = Credentials(access, public, secret)
        with (
            Tower(Cluster(tower, credentials=ours)),
            Store(stranger.directory(), Cluster(tower, credentials=ours), query=port) as store,
        ):
            act(stranger, store, port, Credentials(access, other, other_secret))

    return "store", cause


def asks_without_right(_stranger, store, port, credentials):
    client = StoreClient(port, credentials=credentials)
    with pytest.raises(QueryError, match="not permitted"), client:
        client.topics()


def subscribes_without_right(stranger, store, _port, credentials):
    socket = sockets.subscriber()
    prove(socket, credentials)
    socket.subscribe(b"Horders")
    socket.connect(store._node._meshes[None]._publisher.last_endpoint.decode())
    stranger.until(lambda: counted("store", "subscription not permitted"))
    socket.close(0)


def says_to_publisher(stranger, store, _port, credentials):
    socket = zmq.Context.instance().socket(zmq.XSUB)
    prove(socket, credentials)
    socket.connect(store._node._meshes[None]._publisher.last_endpoint.decode())
    socket.send(b"hello")
    stranger.until(lambda: counted("store", "no subscription"))
    socket.close(0)


def producer():
    machine = ProducerMachine("ME", ProducerSettings())
    builder = BatchBuilder(1 << 16)
    builder.append(1, None, b"value", ())
    machine.handle(Submitted("flights", 1, builder.build()), 0)
    return machine


def consumer(**settings):
    return ConsumerMachine("ME", ConsumerSettings(**settings))


def bounded_store(**bounds):
    return lambda: StoreMachine("ME", {}, PeerBounds(**bounds))


def is_asked(*questions):
    """What a store's query port has received."""

    def cause(*_):
        port = Questions(*questions)
        role = StoreRole(MemoryLog("ME"), port, Retainer(()))
        while port.asked:
            role.pollable()[port.socket]()
        role.close()

    return "store", cause


LATE = messages.GetHeads("flights", "YOU")
FLAT = messages.Records("flights", "AA", 0, 1, content())

CAUSES = {
    "address": sends_head(string("") + string("flights") + number_8(0)),
    "count": sends(b"Bflights", b"\xaa\xa5B\1" + PLACE + number_8(0) + number_4(0), b""),
    "frame count": sends(*HEAD, b"and more"),
    "header size": sends(b"H" + b"x" * 256, HEAD[1]),
    "message id": sends(b"M", HEAD[1]),
    "sequence": sends_head(PLACE + number_8(2**63 - 1)),
    "signature": sends(HEAD[0], b"\0\0" + HEAD[1][2:]),
    "slots": (
        "store",
        lambda stranger, _: stranger.sends(
            b"L" + stranger.store.encode(), b"\xaa\xa5L\1" + string("S1") + number_4(2_049)
        ),
    ),
    "topic": sends_head(string("AA") + string("x" * 250) + number_8(0)),
    "topic count": (
        "store",
        lambda stranger, _: stranger.sends(
            b"W" + stranger.store.encode(),
            b"\xaa\xa5W\1" + string("YOU") + number_4(10_001),
        ),
    ),
    "topic frame": sends(b"Hflights too", HEAD[1]),
    "truncated": sends(HEAD[0], HEAD[1][:-1]),
    "version": sends(HEAD[0], HEAD[1][:3] + b"\2" + HEAD[1][4:]),
    "batch attributes": sends_content(garbled(content(), 42, b"\7")),
    "batch checksum": sends_content(garbled(content(), 90, b"?", mended=False)),
    "batch count": sends_content(content(), count=2),
    "batch header": sends_content(garbled(content(), 36, b"\1")),
    "batch records": says(overlapping),
    "batch sequence": sends_content(content(1, 5)),
    "batch size": sends_content(b""),
    "content size": says(
        lambda stranger: [messages.DirectRecord(stranger.store, "flights", "AA", 0, bytes(8 << 20))]
    ),
    "envelope": sends_content(bytes(200)),
    "beacon": announces(b"B", b"AA"),
    "beacon address": announces(b"B", b"", b"127.0.0.1", b"9"),
    "beacon endpoint": announces(b"B", b"AA", b"127.0.0.1", b"0"),
    "beacon host": ("store", announces_unknown_name),
    "beacon key": announces(b"B", b"AA", b"127.0.0.1", b"9", b"short"),
    "too many peers": ("store", one_more_peer),
    "append failed": ("store", refusing_disk),
    "consumer full": gives("consumer", lambda: consumer(buffer_bytes_max=0), FLAT),
    "disputed partition": twice(content(), content(value=b"other"), content()),
    "duplicate": twice(content(), content()),
    "not for a consumer": gives("consumer", consumer, LATE),
    "not for a mirror": gives("mirror", lambda: MirrorMachine(MirrorSettings()), LATE),
    "not for a producer": gives("producer", producer, FLAT),
    "not for a store": gives(
        "store", lambda: StoreMachine("ME", {}), messages.Ack("flights", "AA", "S1", 0)
    ),
    "not for this store": says(
        lambda stranger: [messages.ConsumerHello(f"{stranger.store}X", "YOU", ())]
    ),
    "not read": ("store", full_of_answers),
    "reorder buffer full": gives(
        "store",
        bounded_store(reorder_batches=0),
        messages.Records("flights", "AA", 5, 1, content(1, 5)),
    ),
    "stopped": ("link", lambda *_: diverge()),
    "too many partitions": gives("store", bounded_store(partitions=0), FLAT),
    "too many stores": gives(
        "store", bounded_store(stores=0), messages.DirectHead("ME", "flights", "AA", 0, "S1")
    ),
    "no subscription": with_keys(says_to_publisher),
    "not permitted": with_keys(asks_without_right),
    "subscription not permitted": with_keys(subscribes_without_right),
    "question frames": asks(b"1234567", b"question"),
    "query message": asks(b"12345678", b"\1question"),
    "query size": is_asked(bytes(QUERY_BYTES_MAX + 1)),
    "query version": asks(b"12345678", b"\2"),
    "membership": asks(b"12345678", query.encode(query.MembersRequest(b"g" * 250))),
    "links": is_asked(
        *(
            query.encode(query.LinkSyncRequest(b"%d" % n, in_sync=True))
            for n in range(LINKS_MAX + 1)
        )
    ),
    "hold": is_asked(
        query.encode(query.HoldRequest(2, b"", ())), query.encode(query.HoldRequest(1, b"", ()))
    ),
    "writers": is_asked(
        *(
            query.encode(query.WritersRequest(tuple((b"%d" % n, 0, 1, 1) for n in range(*part))))
            for part in ((at, at + NAMED_MAX) for at in range(0, WRITERS_MAX + 1, NAMED_MAX))
        )
    ),
    "control message": commands(b"12345678", b"\1command"),
    "control size": ("control", lambda *_: obey(bytes(QUERY_BYTES_MAX + 1), [])),
    "control version": commands(b"12345678", b"\2"),
}


def test_no_reason_is_without_a_row():
    assert CAUSES.keys() == {*REASONS}


@pytest.mark.parametrize("reason", REASONS)
def test_a_drop_is_counted_once_under_its_reason(cluster, reason, monkeypatch, until):
    role, cause = CAUSES[reason]
    before = counted(role, reason)
    cause(cluster, monkeypatch)
    until(lambda: counted(role, reason) > before)
    assert counted(role, reason) == before + 1


def test_every_reason_is_explained(request):
    page = (request.config.rootpath / "docs/operations.md").read_text()
    assert [reason for reason in REASONS if f"| `{reason}` |" not in page] == []
