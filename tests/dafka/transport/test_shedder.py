from __future__ import annotations

import collections
import os
import random
import resource
import socket
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import repeat

import pytest
import zmq
from prometheus_client import REGISTRY

from dafka.transport import sockets
from dafka.transport.poller import Poller
from dafka.transport.shedder import CALM_LOOK_MS_MAX, REFUSED_MAX, WATCHING_S, Shedder, _Lookout
from dafka.transport.shedding import NO_NAMES, NamesBound, SheddingBounds
from tests.support import flood

pytestmark = pytest.mark.net

SMALL = SheddingBounds(
    watched_bytes=-(1 << 40),
    grown_bytes=-(1 << 40),
    drowning_bytes=1 << 40,
    part_bytes=200_000,
    part_growth_bytes=-(1 << 40),
)
"""As if the process grew all the time."""

NAMES = NamesBound(200_000, 2_000_000)


def cut(reason):
    return REGISTRY.get_sample_value("dafka_connections_cut_total", {"reason": reason}) or 0


@pytest.fixture
def shedder():
    return Shedder(SMALL)


@pytest.fixture
def floods():
    """A function that floods an endpoint until it is cut, in a thread; returns whether it was."""

    def floods(endpoint, kind, chunk):
        ended = threading.Event()

        def run():
            if flood.pour(endpoint, kind, chunk):
                ended.set()

        threading.Thread(target=run, daemon=True).start()
        return ended.is_set

    return floods


def listening(shedder, one):
    one.bind("tcp://127.0.0.1:*")
    shedder.bound(one, NAMES if one.type == zmq.XPUB else NO_NAMES, 1 << 24)
    return sockets.unmapped(one.get_string(zmq.LAST_ENDPOINT))


def test_a_flood_waits_until_the_other_end_has_said_what_it_is(opened):
    """Before, libzmq takes what comes for a command it does not know, and ends the connection."""
    server = opened(socket.create_server(("127.0.0.1", 0)))
    ready = b"\x04\x05\x05READY"
    met = threading.Event()

    def meet():
        with flood.met(f"tcp://127.0.0.1:{server.getsockname()[1]}", b"SUB", 60):
            met.set()

    thread = threading.Thread(target=meet, daemon=True)
    thread.start()
    with server.accept()[0] as taken:
        for part in (flood.GREETING[:10], flood.GREETING[10:], ready[:1]):
            taken.sendall(part)
            assert not met.wait(0.05)
        taken.sendall(ready[1:])
        assert met.wait(60)
        thread.join(60)


def flooded(shedder, opened, floods, until):
    """A publisher, where it listens, and who subscribed before somebody was cut who floods it."""
    publisher = opened(sockets.publisher())
    endpoint = listening(shedder, publisher)
    honest = opened(sockets.subscriber())
    honest.connect(endpoint)
    honest.subscribe(b"honest")
    until(lambda: publisher.poll(20) and publisher.recv() == b"\1honest")
    over = floods(endpoint, b"SUB", partial(flood.names, random.Random(1)))

    def ends():
        while publisher.poll(0):
            publisher.recv()
        return over()

    until(ends)
    return publisher, endpoint, honest


def test_a_flood_of_subscriptions_is_cut_and_a_subscriber_stays(shedder, opened, floods, until):
    before = cut("subscriptions")
    publisher, _, honest = flooded(shedder, opened, floods, until)
    until(lambda: cut("subscriptions") == before + 1)
    publisher.send(b"honest news")
    assert honest.poll(5_000)


def test_who_is_cut_does_not_come_again_at_once_and_who_is_there_stays(
    shedder, opened, floods, until
):
    publisher, endpoint, honest = flooded(shedder, opened, floods, until)
    with pytest.raises(TimeoutError):
        flood.reached(endpoint, 0.3)
    publisher.send(b"honest news")
    assert honest.poll(5_000)
    until(lambda: is_let_in(endpoint))


def test_that_the_kernel_refuses_a_filter_is_said_once(shedder, opened, caplog):
    listening(shedder, opened(sockets.publisher()))
    one = _Lookout(shedder)
    for network in (10, 11):  # more than a filter may have
        one._keep_out(tuple(f"{network}.0.{high}.{low}" for high in range(8) for low in range(250)))
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(
        "who is cut for filling memory can come again at once: the kernel refuses"
    )


def test_nobody_is_noted_to_be_cut_where_nobody_cuts(opened):
    """It would be kept for ever, as on systems on which there is no such thread."""
    one, other = (opened(zmq.Context.instance().socket(zmq.PAIR)) for _ in range(2))
    one.bind("tcp://127.0.0.1:*")
    other.connect(one.last_endpoint.decode())
    other.send(b"x")
    idle = Shedder()
    idle.cut(one.recv(copy=False), "no subscription")
    assert idle.due() == {}


def is_let_in(endpoint):
    try:
        flood.reached(endpoint, 0.3).close()
    except TimeoutError:
        return False
    return True


def test_an_endless_message_is_cut_and_who_sends_whole_ones_stays(shedder, opened, floods, until):
    router = opened(sockets.router())
    endpoint = listening(shedder, router)
    before = cut("endless message")
    over = floods(endpoint, b"DEALER", lambda: flood.parts(1_000))
    honest = opened(sockets.dealer())
    honest.connect(endpoint)
    answered = 0

    def served():
        nonlocal answered
        honest.send(bytes(100_000))
        assert router.poll(5_000)
        frame = [router.recv(copy=False) for _ in range(2)][-1]
        if shedder.watching:
            shedder.took(frame)
        answered += 1
        return over()

    until(served)
    until(lambda: cut("endless message") == before + 1)
    honest.send(b"still here")
    assert router.poll(5_000)


def test_what_the_kernel_still_has_fills_no_memory_of_ours(opened):
    shedder = Shedder(replace(SMALL, part_bytes=4_000_000, tiny_bytes=4_000_000))
    router = opened(sockets.router())
    router.set(zmq.RCVHWM, 1)
    endpoint = listening(shedder, router)
    peer = opened(sockets.dealer())
    peer.set(zmq.SNDHWM, 1)
    peer.set(zmq.SNDTIMEO, 1_000)
    peer.connect(endpoint)
    before = cut("endless message")
    with pytest.raises(zmq.Again):  # the kernel is full, and stays so for a second
        collections.deque(map(peer.send, repeat(bytes(1_000_000), 100)), maxlen=0)
    assert cut("endless message") == before


def test_who_floods_where_no_descriptor_is_left_is_cut(shedder, opened, until):
    """The thread ended there, and nobody was cut any more."""
    publisher = opened(sockets.publisher())
    peer = flood.met(listening(shedder, publisher), b"SUB", 5.0)
    peer.settimeout(1)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(map(int, os.listdir("/proc/self/fd"))) + 50  # noqa: PTH208
    before = cut("subscriptions")
    taken = []

    def pours():
        while publisher.poll(0):
            publisher.recv()
        with suppress(OSError):
            peer.sendall(flood.names(random.Random(1)))
        return cut("subscriptions") > before

    def is_ended():
        while publisher.poll(0):
            publisher.recv()
        try:
            return not peer.recv(1 << 16)
        except (ConnectionError, TimeoutError) as error:
            return isinstance(error, ConnectionError)

    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        until(pours)
        until(is_ended)
    finally:
        for one in (*taken, peer.detach()):
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert shedder._thread.is_alive()


def test_who_subscribes_too_often_to_what_is_not_permitted_is_cut(shedder, opened, until):
    publisher = opened(sockets.publisher())
    endpoint = listening(shedder, publisher)
    peers = [opened(sockets.subscriber()) for _ in range(2)]
    frames = []
    for peer in peers:
        peer.connect(endpoint)
        peer.subscribe(b"secret")
        assert publisher.poll(5_000)
        frames.append(publisher.recv(copy=False))
    before = cut("subscriptions")
    until(lambda: shedder.watching)
    assert not shedder.refused(frames[0], "ONE")
    assert [shedder.refused(frames[1], "OTHER") for _ in range(REFUSED_MAX)][-2:] == [False, True]
    until(lambda: cut("subscriptions") == before + 1)
    publisher.send(b"secret")
    assert peers[0].poll(5_000)


def test_connections_of_others_are_not_looked_at(shedder, opened, until):
    router = opened(sockets.router())
    listening(shedder, router)
    server = opened(socket.create_server(("127.0.0.1", 0)))
    client = opened(socket.create_connection(server.getsockname()))
    taken = opened(server.accept()[0])
    for _ in range(20):
        client.sendall(bytes(100_000))
        assert len(taken.recv(100_000, socket.MSG_WAITALL)) == 100_000
        until(lambda: shedder.watching)


def test_the_thread_ends_with_the_last_socket_and_comes_again(shedder, opened):
    for _ in range(2):
        before = set(threading.enumerate())
        router = opened(sockets.router())
        listening(shedder, router)
        (thread,) = set(threading.enumerate()) - before
        router.close(0)
        thread.join(60)
        assert not thread.is_alive()


def test_it_settles_when_every_loop_has_turned(shedder):
    class Loop:
        turns = 0
        waiting = False
        thread = threading.current_thread()

    loop = Loop()
    shedder.loops(loop)
    assert not shedder.settled()
    loop.turns = 1
    assert not shedder.settled(), "it may be in the middle of its first"
    loop.turns = 2
    assert shedder.settled()
    assert not shedder.settled()


def test_a_loop_that_has_ended_is_not_waited_for(shedder):
    class Loop:
        turns = 0
        waiting = False
        thread = threading.Thread(target=int)

    loop = Loop()
    shedder.loops(loop)
    loop.thread.start()
    loop.thread.join()
    assert shedder.settled()


def test_a_loop_that_sleeps_in_its_poll_has_taken_all(shedder, opened, until):
    poller = Poller()
    poller.add(opened(sockets.router()), int)
    shedder.loops(poller)
    thread = threading.Thread(target=poller.turn, args=(2_000,))
    thread.start()
    until(shedder.settled)
    until(shedder.settled)
    thread.join()


class Looks:
    """In place of descriptors: counts how often it is asked, and waits before it answers."""

    def __init__(self):
        self.count = 0

    def connections(self, ports, peers):
        self.count += 1
        threading.Event().wait(0.05)
        return iter(())


@pytest.fixture
def statm(tmp_path):
    """What says of how many pages the process is: the real one has room left over from before."""
    path = tmp_path / "statm"
    path.write_text("9000 1000 100 1 0 1 0\n")
    return path


@pytest.fixture
def lookout(shedder, statm):
    one = _Lookout(shedder)
    one._descriptors.close()
    one._descriptors = Looks()
    os.close(one._statm)
    one._statm = os.open(statm, os.O_RDONLY | os.O_CLOEXEC)
    yield one
    os.close(one._statm)


def test_a_look_that_had_to_wait_for_a_processor_is_not_rested_from(lookout):
    assert lookout.tick(1_000_000) < 2 * WATCHING_S


def test_a_process_that_grows_no_more_is_looked_at_rarely(lookout, statm):
    lookout.tick(1_000_000)
    lookout._look_s = 0.01
    for after_ms in range(10, 400, 10):
        lookout.tick(1_000_000 + after_ms)
    assert lookout._descriptors.count == 1
    lookout.tick(1_000_400)
    assert lookout._descriptors.count == 2
    lookout._look_s = 60
    statm.write_text("9000 2000 100 1 0 1 0\n")
    lookout.tick(1_000_405)
    assert lookout._descriptors.count == 3, "it has grown"
    lookout._look_s = 60
    lookout.tick(1_000_405 + CALM_LOOK_MS_MAX)
    assert lookout._descriptors.count == 4
