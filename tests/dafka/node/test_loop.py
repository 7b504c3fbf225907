from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest
from prometheus_client import REGISTRY

from dafka.cluster import Cluster
from dafka.model import address_of
from dafka.node.loop import STUCK_MS, Node, NodeFailedError, _Watched
from dafka.protocol.effects import Dropped, Listen, Publish
from dafka.protocol.events import PeerListened, Received, TurnEnded, Woke
from dafka.transport import sockets
from dafka.transport.mesh import MESSAGES_PER_TURN_MAX, Mesh
from dafka.transport.poller import Poller
from dafka.wire import messages
from dafka.wire.messages import MessageId

pytestmark = pytest.mark.net


class Recorder:
    """A role that remembers its events, and answers each with the effects it was given."""

    name = "recorder"

    def __init__(self, **answers):
        self.events = []
        self.performed = []
        self.closed_in = None
        self.wakeup = None
        self.answers = answers
        self.readable = {}

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def handle(self, side, event, now_ms):
        if not isinstance(event, TurnEnded):
            self.events.append(event)
        if event == "fail":
            raise ValueError("told to")
        return [(side, effect) for effect in self.answers.get(str(event), ())]

    def wakeup_ms(self):
        return self.wakeup

    def perform(self, side, effect):
        self.performed.append((side, effect))
        return "completed" if effect == "asks" else None

    def pollable(self):
        return self.readable

    def close(self):
        self.closed_in = threading.current_thread().name


@pytest.fixture
def run(cluster):
    """A function that runs a role in a node of the cluster; its side is None."""
    nodes = []

    def run(role, number=1):
        address = address_of(UUID(int=number))
        node = Node(role, address, {None: Mesh(Cluster(cluster.endpoint), address)})
        nodes.append(node)
        node.start()
        return node

    yield run
    for node in nodes:
        node.stop()


def dropped(reason):
    labels = {"role": "recorder", "reason": reason}
    return REGISTRY.get_sample_value("dafka_dropped_total", labels) or 0.0


def test_a_role_is_woken_first_so_that_it_can_begin(run, until):
    role = Recorder()
    run(role)
    until(lambda: role.events)
    assert isinstance(role.events[0], Woke)


def test_events_of_other_threads_arrive_in_order(run, until):
    role = Recorder()
    node = run(role)
    for number in range(1_000):
        node.post(None, number)
    until(lambda: len(role.of(int)) == 1_000)
    assert role.of(int) == list(range(1_000))


def test_an_effect_of_its_own_is_performed_and_its_completion_handed_back(run, until):
    role = Recorder(begin=["asks"], completed=["done"])
    run(role).post(None, "begin")
    until(lambda: len(role.performed) == 2)
    assert role.performed == [(None, "asks"), (None, "done")]
    assert role.of(str) == ["begin", "completed"]


def test_what_one_node_publishes_another_that_listens_receives(run, until):
    message = messages.DirectHead("me", "orders", "AB" * 16, 7)
    listener = Recorder(listen=[Listen(MessageId.DIRECT_HEAD, "me")])
    speaker = Recorder(speak=[Publish(message)])
    run(listener, 1).post(None, "listen")
    node = run(speaker, 2)
    until(lambda: PeerListened(MessageId.DIRECT_HEAD, "me") in speaker.of(PeerListened))
    node.post(None, "speak")
    until(lambda: listener.of(Received))
    assert listener.of(Received) == [Received(message)]


def test_what_a_role_drops_is_counted_by_reason(run, until):
    before = dropped("useless")
    role = Recorder(drop=[Dropped("useless")])
    node = run(role)
    node.post(None, "drop")
    until(lambda: dropped("useless") == before + 1)


def test_a_due_timer_wakes_the_role(run, until):
    role = Recorder()
    role.wakeup = 0
    run(role)
    until(lambda: len(role.of(Woke)) >= 3)


class SlowToEnd(Recorder):
    """A role whose turns end slowly where something has come; it counts those."""

    def __init__(self, end_s, **answers):
        super().__init__(**answers)
        self.came = []
        """How much had come by the end of each such turn."""
        self._end_s = end_s

    def handle(self, side, event, now_ms):
        if isinstance(event, TurnEnded) and len(self.of(Received)) > sum(self.came):
            self.came.append(len(self.of(Received)) - sum(self.came))
            time.sleep(self._end_s)
        return super().handle(side, event, now_ms)


def test_the_longer_a_turn_takes_to_end_the_more_the_next_takes_in(run, until):
    message = messages.DirectRecords("me", "orders", "AB" * 16, 7, 1, b"content")
    listener = SlowToEnd(0.4, listen=[Listen(MessageId.DIRECT_RECORDS, "me")])
    speaker = Recorder(one=[Publish(message)], more=[Publish(message)] * 900)
    run(listener, 1).post(None, "listen")
    node = run(speaker, 2)
    until(lambda: PeerListened(MessageId.DIRECT_RECORDS, "me") in speaker.of(PeerListened))
    node.post(None, "one")
    until(lambda: listener.came)
    node.post(None, "more")
    until(lambda: sum(listener.came) == 901)
    assert max(listener.came) > MESSAGES_PER_TURN_MAX, "which is all that it takes in at once"


def test_another_file_descriptor_makes_events(run, until):
    read, write = os.pipe()
    role = Recorder()
    role.readable = {read: lambda: [(None, os.read(read, 100))]}
    run(role)
    os.write(write, b"hello")
    until(lambda: role.of(bytes))
    assert role.of(bytes) == [b"hello"]
    os.close(write)


class FewSockets:
    """A mesh whose sockets are used by what the test does."""

    changed = 0

    def __init__(self, *of_keys):
        self.publisher = sockets.monitor()
        self.of_keys = list(of_keys)

    @property
    def pollable(self):
        return [self.publisher, *self.of_keys]


def connected(opened, name):
    one, other = (opened(sockets.monitor()) for _ in range(2))
    one.bind(name)
    other.connect(name)
    return one, other


@pytest.fixture
def opened():
    with ExitStack() as stack:
        yield lambda socket: stack.enter_context(socket)


def test_what_was_left_at_a_socket_that_was_used_otherwise_is_called_for(opened):
    one, other = connected(opened, "inproc://used")
    mesh, called = FewSockets(one), []
    opened(mesh.publisher)
    with Poller() as poller:
        watched = _Watched(poller, lambda of, socket: called.append((of, socket.recv())))
        watched.keep_up(mesh)
        assert not poller.turn(0)
        other.send(b"used")
        other.send(b"left")
        assert one.recv() == b"used"
        mesh.changed += 1
        watched.keep_up(mesh)
        assert poller.turn(0)
        assert called == [(mesh, b"left")]


def test_of_the_sockets_of_a_mesh_those_are_called_for_that_it_has(opened):
    first, second = (connected(opened, f"inproc://had.{name}") for name in "ab")
    mesh, called = FewSockets(first[0]), []
    opened(mesh.publisher)
    with Poller() as poller:
        watched = _Watched(poller, lambda _, socket: called.append((socket, socket.recv())))
        watched.keep_up(mesh)
        mesh.of_keys = [second[0]]
        mesh.changed += 1
        watched.keep_up(mesh)
        first[1].send(b"to who has left")
        second[1].send(b"to who came")
        assert poller.turn(0)
        assert called == [(second[0], b"to who came")]


def test_a_failure_ends_the_node_and_shows_in_check(run, until):
    role = Recorder()
    node = run(role)
    node.check()
    node.post(None, "fail")
    assert node.join(60)
    with pytest.raises(NodeFailedError, match="recorder has failed: told to") as caught:
        node.check()
    assert isinstance(caught.value.__cause__, ValueError)
    assert role.closed_in == "dafka-recorder"
    node.post(None, "too late")


def test_stopping_closes_the_role_in_its_own_thread(run):
    role = Recorder()
    node = run(role)
    assert not node.join(0)
    node.stop()
    assert node.join(0)
    assert role.closed_in == "dafka-recorder"


def test_a_stopped_node_may_be_stopped_and_told_again(run):
    node = run(Recorder())
    node.stop()
    node.stop()
    node.post(None, "too late")
    node.wake()
    node.check()


def test_nodes_leave_no_file_descriptor_open(run):
    run(Recorder()).stop()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(5):
        node = run(Recorder(), number + 2)
        node.stop()
    deadline = time.monotonic() + 120
    while len(list(Path("/proc/self/fd").iterdir())) > before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_node_says_what_is_wrong_with_it(run, until):
    node = run(Recorder())
    assert node.unwell() == ""
    node.stop()
    assert node.unwell() == "recorder has ended"
    failing = run(Recorder(), 2)
    failing.post(None, "fail")
    until(lambda: failing.failure)
    assert failing.unwell() == "recorder has failed: told to"


def test_a_node_that_hangs_is_unwell(run, until):
    release = threading.Event()
    role = Recorder(hang=["hangs"])
    role.perform = lambda side, effect: release.wait(120) and None
    node = run(role)
    node.post(None, "hang")
    until(lambda: role.of(str))
    node._turn.turned_ms -= STUCK_MS + 5_000
    assert node.unwell() == "recorder has not turned for 35 s"
    release.set()
    until(lambda: node.unwell() == "")


def test_a_node_counts_its_peers_by_side(run, until):
    one, two = run(Recorder()), run(Recorder(), 2)
    until(lambda: (one.peers(None), two.peers(None)) == (1, 1))
