"""The ledger's simulator, and that it finds faults that are put into the machine."""

from __future__ import annotations

import pytest

from dafka.gateway import owner as module
from dafka.gateway.chains import Beginning, readable
from dafka.gateway.events import LedgerEmptied, LineKind, LinesStored, Offered
from dafka.gateway.ledger import HOLE, Ledger
from dafka.gateway.owner import LedgerMachine, OwnerState
from dafka.gateway.producers import Producers
from dafka.model import replace
from dafka.testing import ledger
from dafka.testing.ledger import run
from dafka.testing.ledger_stores import Shelf
from tests.support.seeds import assert_all_pass, broken_by, shown_by

pytestmark = pytest.mark.sim

SEEDS_MAX = 600
"""Of which one has to show a fault."""


def test_what_clients_were_shown_stays_so(seeds):
    assert_all_pass(run, "dafka.testing.ledger", seeds)


def test_the_same_seed_gives_the_same_run():
    first, second = run(3), run(3)
    assert first.shown == second.shown
    assert first.owners == second.owners


def test_runs_have_takeovers_answers_holes_and_a_log_start():
    runs = [run(seed) for seed in range(50)]
    assert sum(one.owners for one in runs) > 100
    assert sum(one.shown.answered for one in runs) > 200
    assert any(name == HOLE for one in runs for name, _ in one.shown.names.values())
    assert any(one.shown.start for one in runs)
    assert sum(one.shown.repeated for one in runs) > 5
    assert sum(one.restated for one in runs) > 5
    assert sum(shelf.dropped for one in runs for shelf in one.shelves) > 100
    assert sum(one.shown.deleted for one in runs) > 5
    assert sum(one.emptied for one in runs) > 5


def without_a_lease(offer):
    return lambda self, now_ms: offer(self, -1)


def with_the_time_before(thaw):
    """The clock is asked, then the process stands still, then acknowledgements are taken in."""

    def thawed(self):
        world = self._run.world
        now_ms, world.now_ms = world.now_ms, self.frozen_ms
        thaw(self)
        world.now_ms = now_ms

    return thawed


def unread(_majority):
    return lambda stores: 1


def one_store(_blocking):
    return lambda stores: 1


def whole_or_not(see):
    def seen(self, number, kind):
        see(self, number, kind)
        if kind is LineKind.BEGIN:
            self.whole = number

    return seen


def settled_unfinished(see):
    """It is dropped as soon as there is a beginning of what comes after it."""

    def seen(self, number, kind):
        see(self, number, kind)
        if kind is LineKind.BEGIN:
            self.settled = number

    return seen


def what_others_have(_copy):
    """It is dropped because another store has what comes after it, and that may be the only one."""

    def copied(self, other, _part):
        whole = [epoch for epoch, chain in other.chains.items() if readable(chain.lines)]
        newest = max(whole, default=0)
        for epoch, chain in self.chains.items():
            if epoch < newest:
                chain.lines = []
        for address, there in other.kept.items():
            self.take_records(address, there)

    return copied


def new_or_not(_machine):
    return lambda self: len(self._read) >= module.majority_of(self._stores)


def no_others(knows_all):
    """Where all who answer are new, nothing was there before."""

    def knows(new, stores):
        new = [*new]
        return knows_all(new, stores) or (all(new) and len(new) >= module.majority_of(stores))

    return knows


def no_holes(entered):
    """What never came gets no hole, so that what follows moves up."""
    return lambda self, address, *entry: [] if address == HOLE else entered(self, address, *entry)


def lines_alone(_is_stored):
    return lambda self, line, entry: line < self._lines_stored


def records_alone(_is_stored):
    return lambda self, line, entry: (
        entry.address == HOLE or entry.first + entry.records <= self._stored.get(entry.address, 0)
    )


def served_at_once(begin):
    def begun(self, read):
        effects = begin(self, read)
        self._begun = 0
        return effects

    return begun


def gone_is_forgotten(_skip):
    return lambda self, address, sequence: None


def what_has_no_offset_is_left(begin):
    def begun(self, read):
        return begin(self, [replace(one, kept=dict.fromkeys(one.kept, range(0))) for one in read])

    return begun


def any_epoch(follow):
    def followed(self, event, now_ms):
        if isinstance(event, LinesStored):
            event = replace(event, epoch=self._epoch)
        return follow(self, event, now_ms)

    return followed


def an_old_chain(listed):
    def chosen(chains):
        chains = [chain for chain in chains if chain]
        oldest = min((chain[0].epoch for chain in chains), default=0)
        return listed([chain for chain in chains if chain[0].epoch == oldest])

    return chosen


def a_short_chain(listed):
    def chosen(chains):
        shortest = {}
        for chain in chains:
            if chain and len(chain) <= len(shortest.get(chain[0].epoch, chain)):
                shortest[chain[0].epoch] = chain
        return listed(shortest.values())

    return chosen


def nothing_closed(listed):
    return lambda chains: listed(chains)._replace(closed=[])


def a_later_beginning_told_at_once(begin_later):
    def begun(self, deletion=0):
        effects = begin_later(self, deletion)
        self._trims.append((-1, self._trims.pop()[1]))
        return effects

    return begun


def a_deletion_is_forgotten(listed):
    """Whoever takes over does not know which deletion has emptied the partition."""
    return lambda chains: listed(chains)._replace(emptied=0)


def empty_before_it_is_stored(empty):
    """It is said that the partition is empty when its line has only been written."""

    def emptied(self, event):
        effects = empty(self, event)
        return [*effects, LedgerEmptied(event.change)] if effects else []

    return emptied


def everything_in_the_list(offer):
    def offered(self, now_ms):
        found = offer(self, now_ms)
        return [
            Offered(one.start, self.ledger.end) if isinstance(one, Offered) else one
            for one in found
        ]

    return offered


def always_new(append):
    """What stores had forgotten is taken for new when it comes back under the next owner."""
    return lambda self, address, start, end: append(self, address, 0, end)


def never_came(_came):
    return lambda self, line: False


Machine, Gateway = LedgerMachine, ledger.SimGateway

FAULTS = {
    "no lease": (
        1669,
        lambda patch: patch.setattr(Machine, "_offer", without_a_lease(Machine._offer)),
    ),
    "the lease before": (
        39,
        lambda patch: patch.setattr(Gateway, "thaw", with_the_time_before(Gateway.thaw)),
    ),
    "one store read": (
        3,
        lambda patch: patch.setattr(module, "majority_of", unread(module.majority_of)),
    ),
    "one store enough": (
        100,
        lambda patch: patch.setattr(ledger, "blocking_of", one_store(ledger.blocking_of)),
    ),
    "no mark": (73, lambda patch: patch.setattr(Beginning, "see", whole_or_not(Beginning.see))),
    "no holes": (0, lambda patch: patch.setattr(Machine, "_entered", no_holes(Machine._entered))),
    "lines alone": (
        1241,
        lambda patch: patch.setattr(Machine, "_is_stored", lines_alone(Machine._is_stored)),
    ),
    "records alone": (
        20,
        lambda patch: patch.setattr(Machine, "_is_stored", records_alone(Machine._is_stored)),
    ),
    "served at once": (
        0,
        lambda patch: patch.setattr(Machine, "_begin", served_at_once(Machine._begin)),
    ),
    "gone forgotten": (
        0,
        lambda patch: patch.setattr(Ledger, "skip", gone_is_forgotten(Ledger.skip)),
    ),
    "what has none": (
        0,
        lambda patch: patch.setattr(Machine, "_begin", what_has_no_offset_is_left(Machine._begin)),
    ),
    "any epoch": (48, lambda patch: patch.setattr(Machine, "_follow", any_epoch(Machine._follow))),
    "an old chain": (1, lambda patch: patch.setattr(module, "listed", an_old_chain(module.listed))),
    "a short chain": (
        5,
        lambda patch: patch.setattr(module, "listed", a_short_chain(module.listed)),
    ),
    "all of the list": (
        37,
        lambda patch: patch.setattr(Machine, "_offer", everything_in_the_list(Machine._offer)),
    ),
    "a twin that came late": (
        4,
        lambda patch: patch.setattr(module, "listed", nothing_closed(module.listed)),
    ),
    "batches forgotten": (
        8,
        lambda patch: patch.setattr(Machine, "_came", never_came(Machine._came)),
    ),
    "dropped unfinished": (
        4,
        lambda patch: patch.setattr(Beginning, "see", settled_unfinished(Beginning.see)),
    ),
    "dropped for what others have": (
        78,
        lambda patch: patch.setattr(Shelf, "copy", what_others_have(Shelf.copy)),
    ),
    "a new disk counts": (
        260,
        lambda patch: patch.setattr(Machine, "_has_read_enough", new_or_not(Machine)),
    ),
    "new disks alone": (
        214,
        lambda patch: patch.setattr(module, "knows_all", no_others(module.knows_all)),
    ),
    "batches not repeated": (18, lambda patch: patch.setattr(Producers, "taken", lambda self: [])),
    "a later beginning told at once": (
        63,
        lambda patch: patch.setattr(
            Machine, "_begin_later", a_later_beginning_told_at_once(Machine._begin_later)
        ),
    ),
    "a deletion forgotten": (
        110,
        lambda patch: patch.setattr(module, "listed", a_deletion_is_forgotten(module.listed)),
    ),
    "empty before it is stored": (
        182,
        lambda patch: patch.setattr(Machine, "_empty", empty_before_it_is_stored(Machine._empty)),
    ),
    "an end forgotten": (
        344,
        lambda patch: patch.setattr(Machine, "_append", always_new(Machine._append)),
    ),
    "gone not repeated": (2, lambda patch: patch.setattr(Ledger, "skips", lambda self: [])),
}
"""Each with a seed that has shown it, and what puts it in."""


@pytest.mark.parametrize(("seed", "put_in"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found(seed, put_in, monkeypatch):
    put_in(monkeypatch)
    assert broken_by(run, shown_by(seed, SEEDS_MAX))


def test_a_gateway_that_serves_says_so():
    one = run(0)
    assert one.owner.machine.state is OwnerState.SERVING
