from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.groups.acceptor import Registers
from dafka.groups.membership import NOBODY, Ballot, Member, Membership, Prepare
from dafka.process.clock import CLOCK
from dafka.query.agreement import Register
from dafka.query.messages import ErrorResponse, PrepareRequest, decode_question, encode
from dafka.query.service import answer
from dafka.storage.memory import MemoryLog
from tests.support.query_port import QueryPort

pytestmark = pytest.mark.net

SESSION_MS = 2_000


class Acceptor(QueryPort):
    """A store of which only registers are asked."""

    def __init__(self, up_ms=60_000):
        super().__init__()
        self.away = False
        self.lose_disk(up_ms)

    def lose_disk(self, up_ms=60_000):
        log = MemoryLog("AB" * 16)
        registers = self.registers = Registers(log, CLOCK.now_ms() - up_ms)

        def respond(question):
            if self.away:
                return encode(ErrorResponse("storage", "away"))
            return answer(question, log, registers=registers, now_ms=CLOCK.now_ms())

        self.respond = respond


@pytest.fixture
def acceptors():
    """A function that opens so many."""
    with ExitStack() as ports:

        def acceptors(count, **settings):
            opened = [Acceptor(**settings) for _ in range(count)]
            for one in opened:
                ports.callback(one.stop)
            return opened

        yield acceptors


@pytest.fixture
def register():
    """A function that opens the register of a group that these keep."""
    with ExitStack() as opened:

        def register(stores, **settings):
            cluster = Cluster((), [one.endpoint for one in stores])
            return opened.enter_context(Register(cluster, "group", SESSION_MS, **settings))

        yield register


def has(generation, what=b"x", stores=3):
    return Membership(generation, stores, {"run": Member((what,), SESSION_MS)})


def test_there_is_nothing_before_the_first_time(acceptors, register):
    stores = acceptors(3)
    assert register(stores).read() == NOBODY
    assert register(stores).change(lambda found: found) == NOBODY


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_was_agreed_on_is_read(acceptors, register, count):
    stores = acceptors(count)
    for generation in (1, 2):
        assert register(stores).change(lambda _: has(generation)) == has(generation)  # noqa: B023
        assert register(stores).read() == has(generation)


def test_an_offer_is_made_of_what_is_there(acceptors, register):
    stores = acceptors(3)
    register(stores).change(lambda _: has(1, b"first"))
    seen = []

    def keep(found):
        seen.append(found)
        return found

    assert register(stores).change(keep) == has(1, b"first")
    assert seen == [has(1, b"first")]


@pytest.mark.slow
def test_of_many_at_once_one_wins_and_all_know_which(acceptors, register):
    stores = acceptors(3)
    agreed = []

    def decide(name):
        mine = has(1, b"%d" % name)
        agreed.append(register(stores).change(lambda found: mine if found == NOBODY else found))

    threads = [threading.Thread(target=decide, args=(name,)) for name in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(agreed) == 4
    assert len(set(map(repr, agreed))) == 1
    assert register(stores).read() == agreed[0]


def test_who_is_passed_by_while_it_asks_all_begins_anew(acceptors, register):
    """Enough have promised, then somebody else comes, before it has asked the last one again."""
    stores = acceptors(3)
    respond, asked = stores[1].respond, []

    def passed_by(question):
        asked.append(isinstance(decode_question(question), PrepareRequest))
        if asked == [True, True]:
            for one in stores[1:]:
                one.registers.prepare(Prepare("group", Ballot(7, "other")), CLOCK.now_ms())
        return respond(question)

    stores[1].respond = passed_by
    assert register(stores).change(lambda _: has(1)) == has(1)


def test_one_of_three_may_be_down(acceptors, register):
    stores = acceptors(3)
    register(stores).change(lambda _: has(1))
    stores[0].away = True
    assert register(stores).change(lambda _: has(2)) == has(2)
    stores[0].away, stores[1].away = False, True
    assert register(stores).read() == has(2), "one that was away learns of it"


def test_one_of_two_may_not(acceptors, register):
    stores = acceptors(2)
    stores[0].away = True
    with pytest.raises(QueryError, match="1 of 2 stores"):
        register(stores, patience_ms=300).read()
    with pytest.raises(QueryError, match=r"not agreed within 0\.3 s .* 1 of 2 stores"):
        register(stores, patience_ms=300).change(lambda _: has(1))


def test_a_store_with_a_new_disk_counts_for_nothing(acceptors, register):
    """One that knows and one that has lost its disk are not enough; all three are (ADR 30)."""
    stores = acceptors(3)
    register(stores).change(lambda _: has(1))
    stores[0].lose_disk()
    stores[1].away = True
    with pytest.raises(QueryError, match="not agreed"):
        register(stores, patience_ms=300).read()
    stores[1].away = False
    assert register(stores).read() == has(1)
    stores[1].away = True
    assert register(stores).read() == has(1), "the new disk has it too by now"


def test_a_round_that_takes_too_long_is_given_up(acceptors, register):
    """What is asked later is no part of it, however fast it is answered."""
    stores = acceptors(1)
    times = iter(range(0, 10**6, 90))
    slow = replace(CLOCK, now_ms=lambda: next(times), sleep=lambda _: None)
    with pytest.raises(QueryError, match="no time was left"):
        register(stores, patience_ms=300, clock=slow).change(lambda _: has(1))
    assert register(stores).read() == NOBODY
