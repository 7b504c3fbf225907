"""A controller written from control.proto and docs/control-protocol.md alone, for real replicas.

Nothing here imports the product: it is run by its commands, and judged by what its own consumer at
the target reads. One producer writes numbers in order, so the target has to have them like that.
"""

from __future__ import annotations

import itertools
import logging
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.support.two_clusters import LOADED, Traffic, World

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.net, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PROTO = ROOT / "distributor/control/control.proto"
SILENCE_S = 3.0
"""Who has not been heard for so long is gone."""


@pytest.fixture(scope="module")
def pb(tmp_path_factory):
    """The messages of control.proto, made here, apart from any others of those names."""
    found = tmp_path_factory.mktemp("proto") / "found"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO.parent}"]
    command += [f"--descriptor_set_out={found}", PROTO.name]
    subprocess.run(command, check=True, timeout=60)
    files = descriptor_pb2.FileDescriptorSet.FromString(found.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(files.file[0])

    def message(name):
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    return message("dafka.control.v1.Commands"), message("dafka.control.v1.Responses")


class Controller:
    """One session: a reader, and pings in time."""

    def __init__(self, pb, listen, epoch):
        self._commands, responses = pb
        self._out = queue.Queue()
        self._channel = grpc.insecure_channel(listen, [("grpc.max_reconnect_backoff_ms", 500)])
        grpc.channel_ready_future(self._channel).result(120)
        call = self._channel.stream_stream(
            "/dafka.control.v1.Replica/Control",
            request_serializer=lambda one: (
                one if isinstance(one, bytes) else one.SerializeToString()
            ),
            response_deserializer=responses.FromString,
        )
        self.call = call(iter(self._out.get, None))
        self.heard = []
        self._news = threading.Condition()
        self.answered_s, self._answered = time.monotonic(), 0
        self.over = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        self.tell(
            hello={"controller": "foreign", "epoch": epoch, "oldest": 1, "newest": 1}
            | {"replica": listen}
        )
        threading.Thread(target=self._ping, daemon=True).start()

    def tell(self, **kind):
        self._out.put(self._commands(commands=[kind]).SerializeToString())

    def tell_octets(self, octets):
        self._out.put(octets)

    def window(self, *flows):
        """Say all that is wanted."""
        self.tell(create_instance={"cluster": "north", "number": 7})
        for flow in flows:
            self.tell(**flow)
        self.tell(initialization_complete={})

    def wait(self, found, seconds=60):
        """Wait until a response is of a kind; returns it."""
        with self._news:
            hit = lambda: next((one for one in self.heard if found(one)), None)  # noqa: E731
            assert self._news.wait_for(hit, seconds), self.heard
            return hit()

    def wait_for_state(self, status, epoch=0):
        """Wait until flow 1 says that it is that."""
        return self.wait(lambda one: _tells(one, status, epoch))

    def is_in(self, status, epoch):
        """Whether flow 1 has said that it is that."""
        return any(_tells(one, status, epoch) for one in self.heard)

    def wait_until_gone(self, seconds):
        """Wait until the replica has answered no ping for as long as the protocol says."""
        deadline = time.monotonic() + seconds
        while not self.over.is_set() and time.monotonic() - self.answered_s < SILENCE_S:
            assert time.monotonic() < deadline, "it is still there"
            time.sleep(0.02)

    def hang_up(self):
        self._channel.close()

    def _read(self):
        try:
            for one in itertools.chain.from_iterable(said.responses for said in self.call):
                with self._news:
                    if one.HasField("pong"):
                        self.answered_s, self._answered = time.monotonic(), one.pong.number
                    self.heard.append(one)
                    self._news.notify_all()
        except grpc.RpcError:
            pass
        self.over.set()

    def _ping(self):
        for number in itertools.count(1):
            self.tell(ping={"number": number})
            while self._answered < number:
                if self.over.wait(0.05):
                    return
            if self.over.wait(1):
                return


def _tells(response, status, epoch):
    state = response.flow_state
    return response.HasField("flow_state") and (state.status, state.epoch) == (status, epoch)


@pytest.fixture
def world(tmp_path, free_ports):
    first = free_ports(8)
    with ExitStack() as stack:
        yield World(stack, range(first, first + 8), tmp_path), stack


LINK = {"source": "north", "level": 1, "branch": 1, "targets": ["south"], "beyond": ["south"]}
FLOW = {"link": LINK | {"span": ["north", "south"]}, "kind": 1, "shares": 1}
CREATE = {"create_flow": {"number": 1, "flow": FLOW}}
SCHEDULE = {"schedule": {"flow": 1}}
SUSPENDED, WARM, WRITING = 1, 2, 3


def allow(epoch):
    return {"allow_writes": {"flow": 1, "epoch": epoch}}


def test_all_stages_of_a_flow(pb, world, tmp_path, until):
    world, stack = world
    _, listen = world.replica(world.ports[6])
    traffic = Traffic(stack, world, tmp_path)
    traffic.go()
    one = Controller(pb, listen, epoch=1)
    hello = one.wait(lambda response: response.HasField("hello_ok")).hello_ok
    assert (hello.version, hello.replica) == (1, listen)
    one.tell(create_instance={"cluster": "north", "number": 7})
    one.tell(**CREATE)
    time.sleep(0.5)
    assert {response.WhichOneof("kind") for response in one.heard} <= {"hello_ok", "pong"}
    one.tell(initialization_complete={})
    one.wait_for_state(SUSPENDED)
    one.tell(**SCHEDULE)
    one.wait_for_state(WARM)
    time.sleep(1)
    assert traffic.read == [], "nothing is written before it may be"
    one.tell(**allow(1))
    one.wait_for_state(WRITING, 1)
    until(lambda: len(traffic.read) > 200, 60)
    traffic.check(until)
    said = one.wait(lambda response: response.frontiers.write.topics)
    (topic,) = said.frontiers.write.topics
    assert topic.topic == b"orders"
    place = {"topic": b"orders", "ends": [{"address": topic.ends[0].address, "end": traffic.sent}]}
    one.tell(peek={"number": 1, "flow": 1, "at_least": {"topics": [place]}})
    answer = one.wait(lambda response: response.HasField("peek_response")).peek_response
    assert answer.positions.topics[0].ends[0].end >= traffic.sent
    # Nobody is there: copying goes on, and who comes back disturbs nothing.
    one.hang_up()
    traffic.go()
    known = len(traffic.read)
    until(lambda: len(traffic.read) > known + 200, 60)
    one = Controller(pb, listen, epoch=1)
    one.window(CREATE, SCHEDULE, allow(1))
    one.wait_for_state(WRITING, 1)
    first = next(response for response in one.heard if response.HasField("flow_state"))
    assert first.flow_state.status == WRITING
    # An older one is refused for ever.
    stale = Controller(pb, listen, epoch=0)
    assert stale.over.wait(60)
    assert stale.call.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert dict(stale.call.trailing_metadata())["dafka-controller-epoch"] == "1"
    one.tell(allow_compaction={"flow": 1})
    one.wait(lambda response: response.HasField("flow_dropped"))
    traffic.pause()
    known = len(traffic.read)
    time.sleep(1)
    assert len(traffic.read) == known, "nothing of it happens any more"
    one.tell_octets(bytes([1 << 3 | 2, 2, 15 << 3 | 2, 0]))
    assert one.over.wait(60)
    assert one.call.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert dict(one.call.trailing_metadata())["dafka-session-end"] == "violation"


@pytest.mark.parametrize(
    ("harm", "seconds"), [(signal.SIGKILL, 3), (signal.SIGSTOP, 5)], ids=["kill", "stop"]
)
def test_a_replica_that_is_ready_takes_over(pb, world, tmp_path, until, harm, seconds):
    world, stack = world
    (writer, at), (_, other) = (world.replica(port) for port in world.ports[6:])
    traffic = Traffic(stack, world, tmp_path)
    first, second = (Controller(pb, listen, epoch=1) for listen in (at, other))
    for one in (first, second):
        one.window(CREATE, SCHEDULE)
        one.wait_for_state(WARM)
    first.tell(**allow(1))
    traffic.go()
    until(lambda: len(traffic.read) > 200, 60)

    def break_writer():
        writer.send_signal(harm)
        first.wait_until_gone(seconds * LOADED)
        second.tell(**allow(2))

    gap_s = traffic.gap_s(break_writer, lambda: second.is_in(WRITING, 2))
    log.info("took over after %.2f s", gap_s)
    second.wait_for_state(WRITING, 2)
    if harm is signal.SIGSTOP:
        writer.send_signal(signal.SIGCONT)  # it writes, too, and that does no harm
        known = len(traffic.read)
        until(lambda: len(traffic.read) > known + 500, 60)
    traffic.check(until)
    assert gap_s < seconds * LOADED
