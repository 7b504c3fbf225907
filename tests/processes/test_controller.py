"""Controllers and replicas in real processes: whoever dies or freezes, records arrive once."""

from __future__ import annotations

import logging
import signal
import subprocess
import time
from contextlib import ExitStack

import pytest

from tests.support.controlled import Controlled
from tests.support.two_clusters import LOADED, Traffic, World, dafka, end

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.fixture
def keys():
    """Whether the clusters have some."""
    return False


@pytest.fixture
def certificates():
    """Where those of controllers and replicas are."""
    return


@pytest.fixture
def controlled(tmp_path, free_ports, keys, certificates, until):
    first = free_ports(14)
    with ExitStack() as stack:
        world = World(stack, range(first, first + 14), tmp_path, keys=keys)
        system = Controlled(world, until, certificates)
        stack.callback(system.tell)
        yield system, Traffic(stack, world, tmp_path)


class Crowd:
    """Numbers written at the source by ever more producers, and what is read at the target."""

    def __init__(self, stack, world, directory):
        self._stack, self._world = stack, world
        self._read = directory / "read.txt"
        with self._read.open("wb") as output:
            words = ["consume", "orders", "--from-beginning", "--tower", world.tower(3)]
            consumer = dafka(*words, stdout=output)
        stack.callback(end, consumer)
        self._producers = []
        self.rounds = []
        """How many records each producer has written."""

    def join(self):
        """Let another producer begin."""
        producer = dafka(
            "produce", "orders", "--tower", self._world.tower(0), stdin=subprocess.PIPE
        )
        self._stack.callback(end, producer)
        self._producers.append(producer)
        self.rounds.append(0)

    def write(self, count=1):
        """Let each of them write so many."""
        for name, producer in enumerate(self._producers):
            for _ in range(count):
                producer.stdin.write(f"{name}-{self.rounds[name]}\n".encode())
                self.rounds[name] += 1
            producer.stdin.flush()

    @property
    def is_there(self):
        """Whether all that was written is, once, and in the order of each producer."""
        read = [one.split("-") for one in self._read.read_text().split()]
        for name, count in enumerate(self.rounds):
            mine = [int(number) for who, number in read if int(who) == name]
            assert mine == [*range(len(mine))]
            if len(mine) < count:
                return False
        return True


def test_two_replicas_each_write_a_share_of_one_link(tmp_path, free_ports, until):
    first = free_ports(14)
    forwarded = 'distributor_records_total{level="1 share '
    with ExitStack() as stack:
        world = World(stack, range(first, first + 14), tmp_path, links="shares: 2")
        system, crowd = Controlled(world, until), Crowd(stack, world, tmp_path)
        one, other = system.replicas
        until(lambda: [system.flows(at, "writing") for at in (one, other)] == [1, 1], 60)
        for _ in range(12):
            crowd.join()
            crowd.write(10)
            until(lambda: crowd.is_there, 60)
            if all(system.told(at, forwarded) for at in (one, other)):
                break
        assert len(crowd.rounds) > 1
        assert all(system.told(at, forwarded) for at in (one, other)), "each has copied some"
        process, at = system.replicas[one]
        process.kill()
        crowd.write(10)
        until(lambda: system.flows(other, "writing") == 2, 60)
        until(lambda: crowd.is_there, 60)
        system.start_replica(at, one)
        until(lambda: system.flows(one, "warm") == 2, 60)
        assert system.flows(other, "writing") == 2, "what works is left alone"
        crowd.write(10)
        until(lambda: crowd.is_there, 60)


def test_whoever_dies_or_freezes_records_arrive_once_and_in_order(controlled, until):
    system, traffic = controlled
    writer = until(system.ready)
    traffic.go()
    until(lambda: len(traffic.read) > 200)

    process, at = system.replicas[writer]
    killed_s = traffic.gap_s(process.kill, system.others_write(writer))
    log.info("killed: took over after %.2f s", killed_s)
    system.start_replica(at, writer)
    writer = until(system.ready)

    process, _ = system.replicas[writer]
    others_write = system.others_write(writer)
    stopped_s = traffic.gap_s(lambda: process.send_signal(signal.SIGSTOP), others_write)
    log.info("stopped: took over after %.2f s", stopped_s)
    process.send_signal(signal.SIGCONT)
    # It says that it writes until it is told, and what the other says may be a moment old.
    frozen = writer
    until(lambda: system.ready() not in (None, frozen))

    # All controllers are gone, and copying goes on.
    for controller in system.controllers:
        controller.kill()
    known = len(traffic.read)
    until(lambda: len(traffic.read) > known + 1_000)
    # A new one disturbs nobody.
    writer, replaced = system.writer(), system.replaced()
    system.controller()
    until(lambda: system.flows(writer, "writing"))
    until(lambda: len(traffic.read) > known + 3_000)
    assert (system.writer(), system.replaced()) == (writer, replaced)
    traffic.check(until)
    assert killed_s < 3 * LOADED
    assert stopped_s < 5 * LOADED


def test_another_controller_takes_over(controlled, until):
    system, traffic = controlled
    writer = until(system.ready)
    traffic.go()
    until(lambda: len(traffic.read) > 200)
    for controller in system.controllers:
        # Whoever of them is in charge, the other one is then.
        process, at = system.replicas[writer]

        def harm(controller=controller, process=process):
            controller.kill()
            process.kill()

        gap_s = traffic.gap_s(harm, system.others_write(writer))
        log.info("controller and writer killed: took over after %.2f s", gap_s)
        system.start_replica(at, writer)
        system.controller()
        writer = until(system.ready)
        assert gap_s < 8 * LOADED
    traffic.check(until)


@pytest.mark.parametrize("harm", [signal.SIGKILL, signal.SIGSTOP], ids=["kill", "stop"])
def test_the_other_controller_is_in_charge_soon_and_disturbs_nobody(controlled, until, harm):
    system, traffic = controlled
    writer = until(system.ready)
    traffic.go()
    until(lambda: len(traffic.read) > 200)
    (old,) = until(system.in_charge)
    replaced = system.replaced()
    began_s = time.monotonic()
    system.controllers[old].send_signal(harm)
    until(lambda: system.is_in_charge(1 - old), 60)
    took_s = time.monotonic() - began_s
    log.info("%s: in charge after %.2f s", harm.name, took_s)
    if harm is signal.SIGSTOP:
        system.controllers[old].send_signal(signal.SIGCONT)
        until(lambda: system.in_charge() == [1 - old], 60)
    until(lambda: system.ready() == writer, 60)
    assert system.replaced() == replaced
    traffic.check(until)
    assert took_s < 5 * LOADED


@pytest.mark.parametrize("keys", [False, True])
def test_a_writer_that_was_replaced_stops_without_a_controller(controlled, until):
    system, traffic = controlled
    frozen = until(system.ready)
    traffic.go()
    until(lambda: len(traffic.read) > 200)
    process, _ = system.replicas[frozen]
    others_write = system.others_write(frozen)
    traffic.gap_s(lambda: process.send_signal(signal.SIGSTOP), others_write)
    for controller in system.controllers:
        controller.kill()
    process.send_signal(signal.SIGCONT)
    began_s = time.monotonic()
    until(lambda: system.flows(frozen, "warm") and not system.flows(frozen, "writing"))
    stopped_s = time.monotonic() - began_s
    log.info("superseded: wrote no more after %.2f s", stopped_s)
    known = len(traffic.read)
    until(lambda: len(traffic.read) > known + 500)
    later = system.writer()
    assert later not in (None, frozen)
    # The one that is left may write, and does once the later one is not heard any more.
    process, _ = system.replicas[later]
    gap_s = traffic.gap_s(process.kill, lambda: system.flows(frozen, "writing"))
    log.info("later writer killed: went on after %.2f s", gap_s)
    traffic.check(until)
    assert stopped_s < 2 * LOADED
    assert gap_s < 14 * LOADED


@pytest.mark.parametrize("keys", [True])
def test_in_clusters_with_keys_controllers_have_that_of_distributors(controlled, until):
    system, traffic = controlled
    writer = until(system.ready)
    traffic.go()
    until(lambda: len(traffic.read) > 200)
    process, _ = system.replicas[writer]
    process.kill()
    traffic.check(until)


class TestWithCertificates:
    @pytest.fixture
    def certificates(self, tmp_path):
        assert dafka("keys", "tls", "--dir", str(tmp_path / "shown")).wait(60) == 0
        return tmp_path / "shown" / "tls"

    def test_those_of_dafka_keys_tls_are_believed_by_both_sides(self, controlled, until):
        system, traffic = controlled
        writer = until(system.ready)
        traffic.go()
        until(lambda: len(traffic.read) > 200)
        process, at = system.replicas[writer]
        process.kill()
        until(system.others_write(writer))
        system.start_replica(at, writer)
        until(system.ready)
        traffic.check(until)
