"""Whole topologies in the simulator: some seeds here, more with `make test SEEDS=1000`."""

from __future__ import annotations

import random

import pytest

from dafka.model import replace
from dafka.node.store import StoreRole
from dafka.node.turn import Turn
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings
from dafka.protocol.events import Appended
from dafka.protocol.machine import earliest
from dafka.protocol.store import StoreMachine
from dafka.query.sharing_store import SharingStore
from dafka.testing.seeds import replay_command
from dafka.testing.world import Faults
from distributor.control.steering import ClusterStores
from distributor.link.machine import LinkMachine
from distributor.testing import scenario
from distributor.testing.checkers import settled
from distributor.testing.scenario import MODULE, run
from distributor.testing.world import SimWorld
from tests.support.seeds import shown_by
from topology.plan import plan
from topology.testing import random_topology

MUTANT_SEEDS_MAX = 60


@pytest.mark.sim
def test_every_seed_settles_with_all_clusters_equal(seeds):
    failures = [
        f"seed {seed}: {problem}\n    {replay_command(MODULE, seed)}"
        for seed in seeds
        for problem in run(seed).problems
    ]
    assert not failures, "\n".join(failures)


def test_a_run_whose_producers_all_died_says_something_too():
    assert run(5_001_393).problems == []


def test_the_same_seed_is_the_same_run():
    assert run(5) == run(5)
    assert run(5).fingerprint != run(6).fingerprint


@pytest.mark.sim
def test_a_healthy_run_copies_each_record_once_for_each_other_cluster():
    for seed in range(10):
        chance = random.Random(seed)
        the_plan = plan(random_topology(chance, chance.randint(2, 6)))
        sim = SimWorld(the_plan, seed, Faults())
        sim.world.run_until(3_000)
        sent = 0
        for _ in range(30):
            sim.send_somewhere("flights", 3)
            sent += 3
            sim.world.run_until(sim.world.now_ms + 20)
        sim.world.run_until(sim.world.now_ms + 5_000)
        assert settled(sim)
        forwarded = sum(link.forwarded for link in sim.links)
        assert forwarded == sent * (len(sim.clusters) - 1), f"seed {seed}"


def is_seen(seed: int) -> bool:
    """Whether a seed shows a problem, or trips over an assertion."""
    try:
        return bool(run(seed).problems)
    except AssertionError:
        return True


def copy_what_is_not_durable(monkeypatch):
    original = ConsumerMachine.__init__

    def eager(self, address, settings):
        original(self, address, ConsumerSettings(start=settings.start, committed=False))

    monkeypatch.setattr(ConsumerMachine, "__init__", eager)


def never_acknowledge_again(monkeypatch):
    monkeypatch.setattr(StoreMachine, "_acknowledge", lambda self, partition, sequence: [])


def acknowledge_before_the_write(monkeypatch):
    original = StoreMachine._flush

    def hasty(self):
        effects = original(self)
        for token in list(self._appending):
            batches = self._appending[token]
            # In front: effects are performed one after the other, and a write is waited for.
            effects = [*self._append_ended(Appended(token), 0), *effects]
            self._appending[token] = batches
        return effects

    monkeypatch.setattr(StoreMachine, "_flush", hasty)


def look_at_the_own_flag_only(monkeypatch):
    monkeypatch.setattr(
        "distributor.link.machine.should_forward", lambda flags, level: not flags >> (level - 1) & 1
    )


def set_the_flag_of_the_next_level(monkeypatch):
    monkeypatch.setattr(
        "distributor.link.machine.with_copied", lambda flags, level: flags | 1 << level
    )


def forget_where_a_record_came_from(monkeypatch):
    original = LinkMachine._copied

    def forgetful(self, batch, envelope, flags):
        return original(self, batch, envelope._replace(origin=0), flags)

    monkeypatch.setattr(LinkMachine, "_copied", forgetful)


def begin_behind_the_next_record(monkeypatch):
    original = LinkMachine._place

    def careless(self, heads, now_ms):
        behind = {partition: head + 1 for partition, head in heads.target.items()}
        return original(self, replace(heads, target=behind), now_ms)

    monkeypatch.setattr(LinkMachine, "_place", careless)


def acknowledge_before_the_transaction_returns(monkeypatch):
    append, handle = StoreRole._append, StoreRole.handle

    def put_off(self, effect):
        vars(self).setdefault("put_off", []).append(effect)
        return Appended(effect.token)

    def catch_up(self, side, event, now_ms):
        yield from handle(self, side, event, now_ms)
        while isinstance(event, Appended) and self.put_off:
            append(self, self.put_off.pop(0))

    monkeypatch.setattr(StoreRole, "_append", put_off)
    monkeypatch.setattr(StoreRole, "handle", catch_up)


def ask_one_store_at_the_barrier(monkeypatch):
    heads = ClusterStores.heads

    def of_one(self, name, partitions):
        if self._stands_for_all is None:
            self._stands_for_all = name
        return heads(self, self._stands_for_all, partitions)

    monkeypatch.setattr(ClusterStores, "_stands_for_all", None, raising=False)
    monkeypatch.setattr(ClusterStores, "heads", of_one)


def forget_to_wake_the_role(monkeypatch):
    def forgetful(self):
        return earliest(*(mesh.wakeup_ms() for mesh in self._meshes.values()))

    monkeypatch.setattr(Turn, "due_ms", forgetful)


def take_one_share_for_all(monkeypatch):
    original = SharingStore._parts

    def first_of(self, ask, what, topic=None):
        return original(self, ask, what, topic)[:1]

    monkeypatch.setattr(SharingStore, "_parts", first_of)


def remember_for_ever_what_stores_keep(monkeypatch):
    monkeypatch.setattr(SharingStore, "forget_kept", lambda self: None)


MUTANTS = [
    (copy_what_is_not_durable, 59),
    (never_acknowledge_again, 6),
    (acknowledge_before_the_write, 2),
    (look_at_the_own_flag_only, 6),
    (set_the_flag_of_the_next_level, 2),
    (forget_where_a_record_came_from, 6),
    (begin_behind_the_next_record, 0),
    (acknowledge_before_the_transaction_returns, 2),
    (ask_one_store_at_the_barrier, 30),
    (forget_to_wake_the_role, 0),
    (take_one_share_for_all, 10),
    (remember_for_ever_what_stores_keep, 513),
]
"""Each with a seed that has shown it."""


@pytest.mark.sim
@pytest.mark.parametrize(("mutant", "seed"), MUTANTS, ids=[one.__name__ for one, _ in MUTANTS])
def test_bugs_put_in_on_purpose_are_found(mutant, seed, monkeypatch):
    mutant(monkeypatch)
    assert any(is_seen(one) for one in shown_by(seed, MUTANT_SEEDS_MAX))


def test_the_command_line_repeats_a_seed(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["scenario", "--seed", "3"])
    assert scenario.main() == 0
    assert "seed 3:" in capsys.readouterr().out
