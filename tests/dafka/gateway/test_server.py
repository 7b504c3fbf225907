"""What clients do to a server that no good client does; good ones: tests/scenarios."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from prometheus_client import REGISTRY

from dafka.gateway.broker import ErrorCode, KafkaPartition
from dafka.gateway.connection import ServerSettings
from dafka.gateway.coordinator import CoordinatorSettings
from dafka.gateway.fetch import _Read
from dafka.gateway.users import load_users
from dafka.gateway.wire import Api
from dafka.limits import MEMBER_BYTES_MAX, REQUEST_BYTES_MAX
from tests.support.certificates import write_users
from tests.support.kafka_messages import client_batch, fetching, producing, request
from tests.support.kafka_server import WAIT_S, served

pytestmark = pytest.mark.net

MUCH = 8_000_000
ORDERS = KafkaPartition("orders", 0)


def until(holds):
    deadline_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def answers(gateway):
    """Whether it still serves others."""
    with gateway.client() as client:
        return client.ask(Api.API_VERSIONS, 0).error_code == 0


@pytest.fixture
def gateway():
    with served() as there:
        there.create("orders")
        yield there


@pytest.mark.parametrize("size", [-1, 0, 7, REQUEST_BYTES_MAX + 1, 2**31 - 1, -(2**31)])
def test_a_size_that_no_request_has_ends_the_connection(gateway, size):
    with gateway.client() as client:
        client.socket.sendall(struct.pack(">i", size))
        assert client.is_closed()
    assert answers(gateway)


def test_a_fetch_may_wait_for_long_so_it_may_not_be_large(gateway):
    with gateway.client() as client:
        topics = [{"topic": "x" * 30_000, "partitions": []} for _ in range(20)]
        client.send(Api.FETCH, 4, max_wait_ms=600_000, min_bytes=1, topics=topics)
        assert client.is_closed()
    assert answers(gateway)


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", Api.PRODUCE, 2, 1, -1),
        struct.pack(">hhih", Api.METADATA, 1, 1, -1) + b"\x7f\xff\xff\xff",
        struct.pack(">hhih", Api.METADATA, 12, 1, -1) + b"\0\xff\xff\xff\xff\x0f",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_request_ends_the_connection(gateway, frame):
    with gateway.client() as client:
        client.send_frame(frame)
        assert client.is_closed()
    assert answers(gateway)


def test_what_came_before_something_that_is_no_request_is_answered():
    with served(store_s=0.05) as gateway, gateway.client() as client:
        gateway.create("orders")
        client.send(Api.PRODUCE, 9, **producing(client_batch()))
        client.send_frame(b"\x7f" * 20)
        answer = client.receive(Api.PRODUCE, 9)
        assert answer.responses[0].partition_responses[0].base_offset == 0
        assert client.is_closed()


def test_answers_come_in_the_order_of_the_requests():
    with served(store_s=0.05) as gateway, gateway.client() as client:
        gateway.create("orders")
        for _ in range(3):
            client.send(Api.PRODUCE, 9, **producing(client_batch()))
        client.send(Api.PRODUCE, 9, **producing(b""))  # refused at once
        client.send(Api.FETCH, 11, **fetching(("orders", 0, 0)))
        client.send(Api.API_VERSIONS, 0)
        offsets = [
            client.receive(Api.PRODUCE, 9).responses[0].partition_responses[0].base_offset
            for _ in range(4)
        ]
        assert offsets == [0, 3, 6, -1]
        fetched = client.receive(Api.FETCH, 11).responses[0].partitions[0]
        assert fetched.high_watermark == 9  # begun when what was before it was answered
        assert client.receive(Api.API_VERSIONS, 0).error_code == 0


def test_requests_are_taken_in_while_others_are_under_way():
    with served(store_s=1) as gateway, gateway.client() as client:
        gateway.create("orders")
        began_s = time.monotonic()
        for _ in range(20):
            client.send(Api.PRODUCE, 9, **producing(client_batch()))
        for _ in range(20):
            client.receive(Api.PRODUCE, 9)
        assert time.monotonic() - began_s < 20 * 1 / 2


def test_no_more_requests_are_under_way_than_may_be():
    settings = ServerSettings(under_way_max=4, stop_s=0.1)
    with served(settings, store_s=3_600) as gateway, gateway.client() as client:
        gateway.create("orders")
        for _ in range(10):
            client.send(Api.PRODUCE, 9, **producing(client_batch(), acks=-1))
        log = gateway.broker._logs[ORDERS]
        until(lambda: len(log.batches) == 4)
        assert answers(gateway)
        assert len(log.batches) == 4
        client.socket.close()
        gateway.call(gateway.server.stop())


def test_requests_wait_for_room_in_their_turn():
    batch = client_batch([b"x" * 10_000])
    size = len(request(Api.PRODUCE, 9, **producing(batch)))
    settings = ServerSettings(requests_bytes_max=2 * size)
    with served(settings, store_s=0.05) as gateway:
        gateway.create("orders")
        clients = [gateway.client() for _ in range(5)]
        for client in clients:
            client.send(Api.PRODUCE, 9, **producing(batch))
        offsets = [
            client.receive(Api.PRODUCE, 9).responses[0].partition_responses[0].base_offset
            for client in clients
        ]
        assert sorted(offsets) == list(range(5))
        for client in clients:
            client.socket.close()
        until(lambda: gateway.server.connections == 0)


def test_whoever_only_says_that_much_will_come_keeps_nobody_from_asking():
    settings = ServerSettings(requests_bytes_max=2 * REQUEST_BYTES_MAX, pressed_s=0.1)
    with served(settings) as gateway:
        sockets = [gateway.client() for _ in range(4)]
        for client in sockets:
            client.socket.sendall(struct.pack(">i", REQUEST_BYTES_MAX) + b"half")
        until(lambda: gateway.server.connections == 4)
        assert answers(gateway)
        for client in sockets[:2]:
            assert client.is_closed()
        for client in sockets:
            client.socket.close()


def test_half_a_request_ends_when_its_time_is_over():
    settings = ServerSettings(stalled_s=0.1, bytes_per_s_min=1e9)
    with served(settings) as gateway, gateway.client() as client:
        client.socket.sendall(struct.pack(">i", 1_000) + b"half")
        assert client.is_closed()
        assert answers(gateway)


def test_who_asks_nothing_is_disconnected():
    with served(ServerSettings(idle_s=0.1)) as gateway, gateway.client() as client:
        assert client.is_closed()


def test_who_waits_for_an_answer_does_not_count_as_idle():
    settings = ServerSettings(idle_s=0.5, stalled_s=0.2)
    with served(settings, store_s=3_600) as gateway, gateway.client() as client:
        gateway.create("orders")
        late = fetching(("orders", 0, 0), max_wait_ms=1_500, min_bytes=1)
        client.send(Api.FETCH, 11, **late)
        assert client.receive(Api.FETCH, 11).error_code == 0


def ask_for_much(client):
    """Eight megabytes: more than the kernel takes for somebody who does not read."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    client.send(Api.FETCH, 11, **fetching(("orders", 0, 0), max_bytes=1 << 23))


@pytest.fixture
def served_much():
    @contextmanager
    def serve(settings):
        with served(settings) as gateway:
            gateway.create("orders")
            gateway.call(_append(gateway, client_batch([b"x" * MUCH])))
            yield gateway

    return serve


def test_who_does_not_read_is_disconnected_and_holds_one_answer_until_then(served_much):
    settings = ServerSettings(stalled_s=0.5, bytes_per_s_min=1e9)
    with served_much(settings) as gateway, gateway.client() as client:
        for _ in range(30):
            ask_for_much(client)
        until(lambda: gateway.server._unread > 0)
        assert gateway.server._unread < 2 * MUCH
        until(lambda: gateway.server.connections == 0)
        assert gateway.server._unread == 0
        assert answers(gateway)


def test_who_reads_for_longest_goes_where_too_much_is_unread(served_much):
    settings = ServerSettings(unread_bytes_max=MUCH * 3 // 2)
    with served_much(settings) as gateway, gateway.client() as first, gateway.client() as second:
        ask_for_much(first)
        until(lambda: gateway.server._unread > 0)
        ask_for_much(second)
        until(lambda: gateway.server.connections == 1)
        found = second.receive(Api.FETCH, 11).responses[0].partitions[0]
        assert len(found.records) > MUCH


def waiting(**values):
    """A fetch for which nothing has come yet."""
    return {**fetching(("orders", 0, 0)), "max_wait_ms": 600_000, "min_bytes": 1, **values}


def test_whose_waiting_requests_hold_most_goes_where_that_is_too_much():
    settings = ServerSettings(waiting_bytes_max=100_000)
    with served(settings) as gateway, gateway.client() as honest, gateway.client() as greedy:
        gateway.create("orders")
        honest.send(Api.FETCH, 11, **waiting())
        until(lambda: 0 < gateway.server._waiting < 10_000)
        places = waiting()["topics"][0]["partitions"] * 200
        # What it sends behind that is not read, so nobody would see that it has gone.
        greedy.send(Api.FETCH, 11, **waiting(topics=[{"topic": "orders", "partitions": places}]))
        greedy.send(Api.API_VERSIONS, 0)
        assert greedy.is_closed()
        until(lambda: gateway.server.connections == 1)
        assert gateway.server._waiting < 10_000
        gateway.call(_append(gateway, client_batch()))
        found = honest.receive(Api.FETCH, 11).responses[0].partitions[0]
        assert found.high_watermark == 3
        until(lambda: gateway.server._waiting == 0)


def test_of_who_is_disconnected_while_it_waits_nothing_is_left():
    with served(ServerSettings(waiting_bytes_max=100_000)) as gateway, gateway.client() as client:
        gateway.create("orders")
        places = waiting()["topics"][0]["partitions"] * 200
        gc.collect()
        gc.disable()  # it comes rarely in a gateway
        try:
            topics = [{"topic": "orders", "partitions": places}]
            client.send(Api.FETCH, 11, **waiting(topics=topics))
            assert client.is_closed()
            until(lambda: gateway.server.connections == 0)
            until(lambda: not [one for one in gc.get_objects() if isinstance(one, _Read)])
        finally:
            gc.enable()


def test_what_a_member_says_beside_is_held_for_as_long_as_it_waits():
    settings = ServerSettings(waiting_bytes_max=20_000)
    coordinated = CoordinatorSettings(initial_delay_ms=600_000)
    with served(settings, coordinated=coordinated) as gateway, gateway.client() as member:
        member.send(
            Api.JOIN_GROUP,
            8,
            group_id="readers",
            session_timeout_ms=60_000,
            rebalance_timeout_ms=600_000,
            group_instance_id="a",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
            reason="x" * 30_000,
        )
        assert member.is_closed()
        until(lambda: gateway.server._waiting == 0)
        assert answers(gateway)


async def _append(gateway, batch):
    return await gateway.broker.append(ORDERS, batch, -1, WAIT_S)


def test_more_connections_than_may_be_are_closed():
    with served(ServerSettings(connections_max=2)) as gateway:
        clients = [gateway.client() for _ in range(2)]
        for client in clients:
            assert client.ask(Api.API_VERSIONS, 0).error_code == 0
        with gateway.client() as third:
            assert third.is_closed()
        clients[0].socket.close()
        until(lambda: gateway.server.connections == 1)
        assert answers(gateway)
        clients[1].socket.close()


def secured(gateway, directory):
    """A client that speaks TLS."""
    client = gateway.client()
    context = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
    return client


@pytest.fixture
def served_by_tls(tmp_path):
    users = load_users(write_users(tmp_path, tls=True, shop={})[0])
    return lambda settings: served(settings, users=users)


def test_who_has_not_shaken_hands_counts_as_connection(served_by_tls, tmp_path):
    with served_by_tls(ServerSettings(connections_max=3)) as gateway:
        silent = [gateway.client() for _ in range(2)]
        until(lambda: gateway.server.connections == 2)
        with secured(gateway, tmp_path) as client:
            assert client.ask(Api.API_VERSIONS, 0).error_code == 0
            with gateway.client() as more:
                assert more.is_closed()
            for one in silent:
                one.socket.close()
            until(lambda: gateway.server.connections == 1)
            assert client.ask(Api.API_VERSIONS, 0).error_code == 0


def test_those_who_never_shake_hands_keep_nobody_out(served_by_tls, tmp_path):
    with served_by_tls(ServerSettings(unproven_max=3, unproven_s=3_600)) as gateway:
        silent = [gateway.client() for _ in range(5)]
        with secured(gateway, tmp_path) as client:
            assert client.ask(Api.API_VERSIONS, 0).error_code == 0
            for one in silent[:3]:
                assert one.is_closed()
            until(lambda: gateway.server.connections == 3)
        for one in silent:
            one.socket.close()


def test_a_handshake_that_takes_too_long_or_is_none_ends(served_by_tls, tmp_path):
    with served_by_tls(ServerSettings(unproven_s=0.5)) as gateway:
        with gateway.client() as silent, gateway.client() as other:
            other.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert other.is_closed()
            assert silent.is_closed()
        with secured(gateway, tmp_path) as client:
            assert client.ask(Api.API_VERSIONS, 0).error_code == 0


def sample(name, **labels):
    return REGISTRY.get_sample_value(f"dafka_gateway_{name}", labels) or 0


def test_requests_are_counted_with_their_bytes_and_errors():
    errors = []
    with served(refused=lambda api, error: errors.append((api, error))) as gateway:
        gateway.create("orders")
        before = [
            sample("request_seconds_count", api="produce"),
            sample("bytes_total", api="produce", direction="in"),
            sample("bytes_total", api="produce", direction="out"),
            sample("connections"),
        ]
        frame = request(Api.PRODUCE, 9, **producing(client_batch()))
        with gateway.client() as client:
            client.send_frame(frame)
            client.receive(Api.PRODUCE, 9)
            client.ask(Api.PRODUCE, 9, **producing(client_batch(), topic="other"))
            (there,) = gateway.server.describe()
            assert (there.user, there.client_id, there.requests) == ("", "me", 2)
            assert there.client.startswith("127.0.0.1:")
            assert sample("connections") == before[3] + 1
        assert sample("request_seconds_count", api="produce") == before[0] + 2
        came = sample("bytes_total", api="produce", direction="in") - before[1]
        assert len(frame) < came < 2 * len(frame)
        assert sample("bytes_total", api="produce", direction="out") > before[2]
        until(lambda: sample("connections") == before[3])
    assert errors == [(Api.PRODUCE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_nobody_waits_for_a_client_that_has_gone(gateway):
    with gateway.client() as client:
        client.send(Api.FETCH, 11, **fetching(("orders", 0, 0), max_wait_ms=600_000))
        until(lambda: gateway.server.connections == 1)
    until(lambda: gateway.server.connections == 0)


@pytest.mark.parametrize("behind", [1, 5_000], ids=["a little", "more than is read ahead"])
def test_nobody_waits_for_a_client_that_has_gone_with_more_to_say(gateway, behind):
    with gateway.client() as client:
        client.send(Api.FETCH, 11, **fetching(("orders", 0, 0), max_wait_ms=600_000))
        until(lambda: gateway.server._waiting > 0)
        for _ in range(behind):
            client.send(Api.API_VERSIONS, 0)
        client.send(Api.FETCH, 11, **fetching(("orders", 0, 0), max_wait_ms=600_000))
        client.send(Api.PRODUCE, 9, **producing(client_batch(), acks=0))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()
        until(lambda: gateway.server.connections == 0)
    assert gateway.broker.offsets(ORDERS).end == 3


def test_what_a_client_sent_before_it_went_is_stored(gateway):
    with gateway.client() as client:
        for _ in range(100):
            client.send(Api.PRODUCE, 9, **producing(client_batch(), acks=0))
    until(lambda: gateway.broker.offsets(ORDERS).end == 300)


@pytest.fixture
def limited(tmp_path):
    """A gateway and a client whose quota is a byte a second."""
    file, passwords = write_users(tmp_path, shop={"write": ["*"]})
    file.write_text(file.read_text() + "producer_byte_rate = 1\n")
    with served(users=load_users(file)) as gateway, gateway.client() as client:
        gateway.create("orders")
        client.ask(Api.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        shown = f"\0shop\0{passwords['shop']}".encode()
        client.ask(Api.SASL_AUTHENTICATE, 2, auth_bytes=shown)
        yield gateway, client


@pytest.fixture
def mute(limited):
    """The same; the client owes for ten seconds, and has sent more."""
    gateway, client = limited
    assert client.ask(Api.PRODUCE, 9, **producing(client_batch())).throttle_time_ms == 10_000
    client.send(Api.PRODUCE, 9, **producing(client_batch()))
    return gateway, client


def test_who_is_mute_is_answered_first_and_then_not_read_from(mute):
    gateway, client = mute
    client.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.receive(Api.PRODUCE, 9)
    assert gateway.broker.offsets(ORDERS).end == 3


def test_of_requests_that_come_together_one_is_taken_beyond_a_quota(limited):
    gateway, client = limited
    frame = request(Api.PRODUCE, 9, **producing(client_batch()))
    client.socket.sendall(5 * (struct.pack(">i", len(frame)) + frame))
    assert client.receive(Api.PRODUCE, 9).throttle_time_ms == 10_000
    client.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.receive(Api.PRODUCE, 9)
    assert gateway.broker.offsets(ORDERS).end == 3


def test_nobody_waits_at_the_end_for_who_is_mute(mute):
    gateway, client = mute
    began_s = time.monotonic()
    gateway.stop()
    assert client.is_closed()
    assert time.monotonic() - began_s < 5


def test_a_client_that_wants_no_answer_is_disconnected_where_nothing_was_stored(gateway):
    with gateway.client() as client:
        client.send(Api.PRODUCE, 9, **producing(client_batch(), topic="other", acks=0))
        assert client.is_closed()


def test_a_request_that_cannot_be_answered_ends_its_connection_and_is_logged(gateway, caplog):
    gateway.broker.topics = None
    with gateway.client() as client:
        client.send(Api.METADATA, 1, topics=None)
        assert client.is_closed()
    until(lambda: "a request cannot be answered" in caplog.text)
    assert answers(gateway)


def test_at_the_end_what_is_under_way_is_answered():
    with served(store_s=0.2) as gateway, gateway.client() as client:
        gateway.create("orders")
        client.send(Api.PRODUCE, 9, **producing(client_batch()))
        until(lambda: gateway.broker._logs[ORDERS].batches)
        with gateway.client() as waiting:
            waiting.send(Api.FETCH, 11, **fetching(("orders", 0, 0), max_wait_ms=600_000))
            until(lambda: gateway.server.connections == 2)
            gateway.stop()
            answer = client.receive(Api.PRODUCE, 9)
            assert answer.responses[0].partition_responses[0].base_offset == 0
            assert waiting.is_closed()
        with pytest.raises(ConnectionRefusedError):
            gateway.client()


def test_at_the_end_who_has_only_just_come_is_let_go(gateway):
    """Its connection is stopped before it has begun."""

    async def come():
        opening = asyncio.create_task(asyncio.open_connection("127.0.0.1", gateway.port))
        while not gateway.server.connections:
            await asyncio.sleep(0)
        await gateway.server.stop()
        reader, writer = await opening
        try:
            return await asyncio.wait_for(reader.read(), 120)
        finally:
            writer.close()

    assert gateway.call(come()) == b""


@pytest.mark.parametrize("turns", range(8))
def test_at_the_end_who_is_being_accepted_is_let_go(gateway, turns):
    """However far asyncio has come with it."""

    async def come():
        opening = asyncio.create_task(asyncio.open_connection("127.0.0.1", gateway.port))
        for _ in range(turns):
            await asyncio.sleep(0)
        await gateway.server.stop()
        try:
            reader, writer = await opening
        except ConnectionError:
            return b""
        try:
            return await asyncio.wait_for(reader.read(), 120)
        except ConnectionError:
            return b""
        finally:
            writer.close()

    assert gateway.call(come()) == b""


def test_at_the_end_what_takes_too_long_is_not_waited_for():
    with served(ServerSettings(stop_s=0.1), store_s=3_600) as gateway, gateway.client() as client:
        gateway.create("orders")
        client.send(Api.PRODUCE, 9, **producing(client_batch(), timeout_ms=600_000))
        until(lambda: gateway.broker._logs[ORDERS].batches)
        gateway.stop()
        assert client.is_closed()


def joining(protocol=b""):
    return {
        "group_id": "g",
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": protocol}],
    }


@pytest.mark.slow
@pytest.mark.parametrize("told", [b"topics", bytes(MEMBER_BYTES_MAX - 1_000)], ids=["few", "much"])
def test_members_that_wait_keep_nobody_from_asking(told):
    waits = CoordinatorSettings(initial_delay_ms=3_600_000)
    small = ServerSettings(stop_s=0.1, requests_bytes_max=REQUEST_BYTES_MAX)
    with served(small, coordinated=waits) as gateway:
        clients = [gateway.client() for _ in range(300)]
        groups = gateway.server._handlers._groups._all.by_name
        for number, client in enumerate(clients, 1):
            client.send(Api.JOIN_GROUP, 3, **joining(told))
            # One by one: on a busy machine too much would be unread, and some be cut for that.
            until(lambda all_yet=number: "g" in groups and len(groups["g"].waiting) == all_yet)
        assert answers(gateway)
        for client in clients:
            client.socket.close()
        until(lambda: not groups["g"].waiting)


@pytest.mark.slow
def test_many_clients_at_once(gateway):
    def work(_):
        with gateway.client() as client:
            for _ in range(20):
                client.ask(Api.PRODUCE, 9, **producing(client_batch()))

    with ThreadPoolExecutor(30) as pool:
        list(pool.map(work, range(30)))
    assert gateway.broker.offsets(ORDERS).end == 30 * 20 * 3
