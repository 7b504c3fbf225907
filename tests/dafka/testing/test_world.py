"""The simulated world: repeatable, and as unreliable as it is told to be."""

from __future__ import annotations

import pytest

from dafka.protocol.effects import Listen, Publish
from dafka.protocol.events import PeerListened, Received, ReceivedTogether, TurnEnded, Woke
from dafka.testing.world import Faults, SimMesh, SimNode, World
from dafka.wire import messages
from dafka.wire.messages import MessageId


class Parrot:
    """A role that listens for heads, and says its own every 10 ms."""

    name = "parrot"

    def __init__(self, address):
        self.address = address
        self.due_ms = 0
        self.heard = []

    def handle(self, side, event, now_ms):
        if not isinstance(event, TurnEnded):
            self.heard.append((now_ms, event))
        if not isinstance(event, Woke):
            return []
        effects = [] if self.due_ms else [(side, Listen(MessageId.HEAD, ""))]
        self.due_ms = now_ms + 10
        return [*effects, (side, Publish(messages.Head("t", self.address, now_ms)))]

    def wakeup_ms(self):
        return self.due_ms

    def pollable(self):
        return {}

    def close(self):
        self.closed = True

    def check(self):
        assert self.due_ms >= 0


class ParrotNode(SimNode):
    def build(self):
        self.parrot = Parrot(self.name)
        return self.parrot, self.parrot

    def received(self):
        """Messages, those that came together too."""
        found = []
        for _, event in self.parrot.heard:
            if isinstance(event, Received):
                found.append(event.message)
            elif isinstance(event, ReceivedTogether):
                found += event.messages
        return found


def run(faults, seed=1, until_ms=1_000):
    world = World(seed, faults)
    mesh = SimMesh(world)
    nodes = [ParrotNode(world, name, {None: mesh}) for name in ("A", "B")]
    for node in nodes:
        node.boot()
    world.run_until(until_ms)
    return world, nodes


def test_everything_arrives_when_nothing_goes_wrong():
    _, (one, other) = run(Faults())
    assert {len(one.received()), len(other.received())} <= {99, 100, 101}
    assert {message.address for message in one.received()} == {"B"}


def test_messages_are_lost_and_repeated_as_told():
    assert run(Faults(loss=1.0))[1][0].received() == []
    assert len(run(Faults(duplication=1.0))[1][0].received()) in range(196, 204)
    assert 30 < len(run(Faults(loss=0.5))[1][0].received()) < 70


def test_long_delays_reorder():
    said = [message.sequence for message in run(Faults(delay_ms_max=100))[1][0].received()]
    assert said != sorted(said)


def test_the_same_seed_is_the_same_run():
    faults = {"loss": 0.3, "duplication": 0.3, "delay_ms_max": 30}
    runs = [run(Faults(**faults), seed) for seed in (1, 1, 2)]
    prints = [world.fingerprint for world, _ in runs]
    assert prints[0] == prints[1] != prints[2]
    assert runs[0][1][0].parrot.heard == runs[1][1][0].parrot.heard


def test_a_crashed_node_hears_nothing_and_comes_back_new():
    world, (one, other) = run(Faults())
    before = one.parrot
    one.crash()
    world.run_until(2_000)
    assert len(before.heard) < 250
    one.boot()
    world.run_until(2_100)
    assert before.closed
    assert one.parrot is not before
    assert one.incarnation == 3
    assert PeerListened(MessageId.HEAD, "") in [event for _, event in one.parrot.heard]
    assert other.received()[-1].sequence > one.clock.now_ms() - 100


def test_a_suspended_node_does_nothing_and_hears_later_what_came_meanwhile():
    world, (one, other) = run(Faults())
    one.suspend(500)
    done = []
    one.later(100, lambda: done.append(world.now_ms))
    heard = len(other.received())
    world.run_until(1_490)
    assert (one.awake, one.alive, done) == (False, True, [])
    assert len(other.received()) <= heard + 1, "that was on its way"
    assert other.received()[-1].sequence < one.clock.now_ms() - 450
    world.run_until(1_600)
    assert one.awake
    assert done == [1_500]
    assert len(one.received()) > 150
    behind_s = one.clock.now_ms() / 1_000 - one.clock.seconds()
    assert behind_s == pytest.approx(0.5, abs=0.001)


@pytest.mark.parametrize("both", [False, True])
def test_who_is_cut_off_hears_nothing_until_it_is_healed(both):
    world, (one, other) = run(Faults())
    world.cut("A", "B", both=both)
    world.run_until(1_010)
    heard = len(one.received()), len(other.received())
    world.run_until(1_500)
    assert len(other.received()) == heard[1]
    assert (len(one.received()) == heard[0]) == both
    assert world.parted("B", "A")
    world.heal()
    world.run_until(2_000)
    assert len(other.received()) > heard[1] + 40
    assert (world.healed_ms, world.parted("B", "A")) == (1_500, False)


def test_time_is_where_it_was_told_to_run_to():
    world = World(1, Faults())
    world.run_until(500)
    assert (world.now_ms, world.events) == (500, 0)


def test_who_does_not_listen_any_more_hears_nothing():
    world = World(1, Faults())
    mesh = SimMesh(world)
    one, other = (ParrotNode(world, name, {None: mesh}) for name in ("A", "B"))
    one.boot()
    other.boot()
    world.run_until(100)
    heard = len(one.received())
    assert heard
    mesh.unlisten(one.ports[None], MessageId.HEAD, "")
    world.run_until(110)
    heard = len(one.received())
    world.run_until(200)
    assert len(one.received()) == heard
    assert len(other.received()) > heard


def test_what_plans_itself_at_once_for_ever_is_told():
    world = World(1, Faults())

    def again():
        world.after(0, again)

    again()
    with pytest.raises(AssertionError, match="time stands still at 0 ms"):
        world.run_until(1_000)
