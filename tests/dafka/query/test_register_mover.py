"""What runs were agreed on, where a cluster gets other stores."""

from __future__ import annotations

import random

import pytest

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.groups.acceptor import Registers
from dafka.groups.commit import SINKS
from dafka.groups.membership import NOBODY, Accept, Ballot, Prepare, encode
from dafka.groups.runs import SESSION_MS, AgreedRun, Manifest, enrolled_run, run_in
from dafka.query.agreement import Register
from dafka.query.client import StoreClient
from dafka.query.cluster_client import ClusterClient
from dafka.query.register_mover import RegisterMover
from dafka.query.slot_steps import ROWS_MAX
from tests.support.asked_stores import AskedStore

GROUP = f"{SINKS}{'a' * 32}"


class Time:
    """That of all stores, and of who asks them."""

    def __init__(self):
        self.at_ms = 10 * SESSION_MS

    def now_ms(self):
        return self.at_ms

    def sleep(self, seconds):
        self.at_ms += max(1, round(seconds * 1_000))


class Acceptor(AskedStore):
    """A store that answers for registers."""

    def __init__(self, name, time):
        super().__init__(name)
        self.time = time

    @property
    def now_ms(self):
        return self.time.now_ms()


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def stores(time):
    """Some that were there before, and some that are new."""
    return [Acceptor(f"tcp://127.0.0.1:{number}", time) for number in range(1, 7)]


def clients(stores):
    return [StoreClient(one.name, connect=one) for one in stores]


def mover(stores, leaving=(), name="mover"):
    return RegisterMover(clients(stores), clients(leaving), name)


def register(stores, time, group=GROUP):
    """The register, as who writes by Spark asks these stores for it."""
    cluster = Cluster("tcp://127.0.0.1:9", stores=[one.name for one in stores])
    there = {one.name: one for one in stores}

    def connect(endpoint, credentials):
        return there[endpoint](endpoint, credentials)

    asked = ClusterClient(cluster, 1_000, connect=connect)
    return Register(cluster, group, SESSION_MS, stores=asked, clock=time)


def agree(stores, time, run, group=GROUP):
    """Let them agree on a run."""
    agreed = AgreedRun(Manifest("job", run, True, ()))

    def offer(there):
        return enrolled_run(agreed, there.generation + 1, len(stores))

    return register(stores, time, group).change(offer)


def run_of(stores, time, group=GROUP):
    """The number of the run that was agreed on there; None if none was."""
    found = run_in(register(stores, time, group).read())
    return None if found is None else found.manifest.run


def test_stores_that_take_the_place_of_all_have_what_those_agreed_on(stores, time):
    old, new = stores[:3], stores[3:]
    agree(old, time, 7)
    assert mover(new, old).look() == ""
    assert run_of(new, time) == 7


def test_a_new_majority_knows_what_the_one_store_before_had(stores, time):
    agree(stores[:1], time, 7)
    assert run_of(stores[1:3], time) is None
    assert mover(stores[:3]).look() == ""
    stores[0].down = True
    assert run_of(stores[1:3], time) == 7


def test_of_what_some_have_the_latest_is_handed_over(stores, time):
    agree(stores[:3], time, 7)
    stores[0].down = True
    agree(stores[:3], time, 8)
    stores[0].down = False
    assert mover([stores[0], *stores[3:5]], stores[1:3]).look() == ""
    assert run_of([stores[0], *stores[3:5]], time) == 8


def test_a_store_that_has_just_begun_is_waited_for(stores, time):
    agree(stores[:1], time, 7)
    stores[1].registers = Registers(stores[1].log, time.now_ms())
    waits_for = mover(stores[:2]).look()
    assert waits_for == f"{stores[1].name} to take what others have agreed on in {GROUP}"
    time.sleep(SESSION_MS / 1_000 + 1)
    assert mover(stores[:2], name="again").look() == ""
    assert run_of(stores[:2], time) == 7


def test_what_is_on_its_way_to_a_store_that_ends_is_not_taken_there(stores, time):
    """Of two that end one had taken it, and has ended: with the other it would be agreed on."""
    one, other, *new = stores[:5]
    ballot = Ballot(1, "p")
    offered = encode(enrolled_run(AgreedRun(Manifest("job", 7, True, ())), 1, 3))
    for store in clients([one, other]):
        store.prepare(Prepare(GROUP, ballot))
    (first,), (second,) = clients([one]), clients([other])
    assert first.accept(Accept(GROUP, ballot, offered)).granted
    one.down = True
    assert mover(new, [other]).look() == ""
    assert not second.accept(Accept(GROUP, ballot, offered)).granted
    assert register(new, time).read() == NOBODY


def replaced(new, leaving, time):
    """End stores, one after the other, each once all is handed over."""
    while leaving:
        if mover(new, leaving, f"m{len(leaving)}").look():
            time.sleep(SESSION_MS / 1_000)
        else:
            leaving.pop().down = True


@pytest.mark.parametrize("seed", range(60))
def test_what_was_offered_before_is_agreed_on_by_both_or_by_none(seed):
    """Words of a round that began before are taken at any moment while stores are replaced."""
    chance, time = random.Random(seed), Time()
    stores = [Acceptor(f"tcp://127.0.0.1:{number}", time) for number in range(1, 7)]
    old = stores[:3]
    stays = chance.sample(old, chance.randint(0, 2))
    new = [*stays, *stores[3 : 3 + chance.randint(1, 3)]]
    if chance.random() < 0.5:
        agree(old, time, 1)
    ballot = Ballot(5, "p")
    promised = chance.sample(old, chance.randint(2, 3))
    for one in promised:
        one.registers.prepare(Prepare(GROUP, ballot), time.now_ms())
    offered = encode(enrolled_run(AgreedRun(Manifest("job", 2, True, ())), 2, 3))
    coming, granted = chance.sample(old, 3), []

    def comes():
        if coming and chance.random() < 0.2 and not coming[-1].down:
            one = coming.pop()
            word = one.registers.accept(Accept(GROUP, ballot, offered), time.now_ms())
            granted.extend([one] * word.granted)

    for one in stores:
        one.hears.append(comes)
    replaced(new, [one for one in old if one not in stays], time)
    for _ in range(20):
        comes()
    if len(granted) > 1:
        assert run_of(new, time) == 2


def test_who_agrees_meanwhile_goes_first_in_the_end(stores, time):
    agree(stores[:2], time, 7)
    stores[2].hears.append(lambda: agree(stores[:2], time, 8) if stores[2].hears.pop() else None)
    assert mover(stores[:3]).look() == ""
    assert run_of(stores[:3], time) == 8

    def intrudes():
        known = stores[3].registers
        promised = known.prepare(Prepare(GROUP, Ballot(1, "")), time.now_ms()).promised
        known.prepare(Prepare(GROUP, Ballot(promised.number + 1, "z")), time.now_ms())

    stores[3].hears.append(intrudes)
    assert mover(stores[:4]).look() == f"others to end what they agree on in {GROUP}"


def test_stores_that_have_the_same_are_left_in_peace(stores, time):
    agree(stores[:3], time, 7)
    before = [one.registers.roster(GROUP, time.now_ms()).accepted for one in stores[:3]]
    assert mover(stores[:3]).look() == ""
    after = [one.registers.prepare(Prepare(GROUP, Ballot(0, "")), 0).promised for one in stores[:3]]
    assert before == after


def test_more_than_a_list_has_and_no_groups_of_members(stores, time):
    groups = [f"{SINKS}{number:032x}" for number in range(ROWS_MAX + 1)]
    for group in groups:
        agree(stores[:1], time, 7, group)
    agree(stores[:1], time, 7, "billing")
    (client,) = clients(stores[:1])
    assert sorted(client.registers()) == groups
    assert mover(stores[:2]).look() == ""
    assert run_of(stores[1:2], time, groups[-1]) == 7
    assert register(stores[1:2], time, "billing").read() == NOBODY


def test_a_store_that_does_not_answer_is_waited_for(stores, time):
    agree(stores[:1], time, 7)
    stores[1].down = True
    with pytest.raises(QueryError, match="does not answer"):
        mover(stores[:2]).look()
