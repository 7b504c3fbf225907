from __future__ import annotations

import pytest

from dafka.gateway import owner, share
from dafka.gateway.effects import Answer
from dafka.gateway.producers import Producers
from dafka.gateway.refusals import Refusals
from dafka.gateway.share import Share
from dafka.testing.gateways import judged, run
from tests.support.seeds import assert_all_pass, broken_by, shown_by

SEEDS_MAX = 12


def checked(seed):
    """Run a seed, and assert that nothing is wrong at its end."""
    problems = run(seed).problems()
    assert not problems, problems


@pytest.mark.sim
@pytest.mark.slow
def test_whatever_happens_each_record_has_one_offset_where_its_client_was_told(seeds):
    # A sixth of the seeds: one costs as much as many of most other simulations.
    assert_all_pass(checked, "dafka.testing.gateways", seeds[: len(seeds) // 6])


@pytest.mark.sim
@pytest.mark.parametrize("seed", [1041, 1208])
def test_a_takeover_that_is_under_way_at_the_end_is_waited_for(seed):
    checked(seed)


def test_the_same_seed_is_the_same_run():
    assert judged(3) == judged(3)
    assert judged(3) != judged(4)


def nothing_known_of_producers(take):
    def takes(self, read, now_ms):
        effects = take(self, read, now_ms)
        self._producers = Producers()
        return effects

    return takes


def answered_at_once(append):
    def appends(self, wanted, offered, now_ms):
        effects = append(self, wanted, offered, now_ms)
        if self._waiting and self._waiting[-1].token == wanted.token:
            waiting = self._waiting.pop()
            placed = share.Placed(share.ErrorCode.NONE, waiting.offset)
            effects = [*effects, Answer(wanted.token, placed)]
        return effects

    return appends


def nothing_closed(listed):
    return lambda chains: listed(chains)._replace(closed=[])


FAULTS = {
    "refused, and what is behind it taken": (
        0,
        lambda patch: patch.setattr(Refusals, "before", lambda *_: False),
    ),
    "out of order at once": (
        2,
        lambda patch: patch.setattr(Refusals, "may_come", lambda *_: False),
    ),
    "producers forgotten": (
        0,
        lambda patch: patch.setattr(Share, "take", nothing_known_of_producers(Share.take)),
    ),
    "answered before it is stored": (
        0,
        lambda patch: patch.setattr(Share, "append", answered_at_once(Share.append)),
    ),
    "a twin that came late": (
        3,
        lambda patch: patch.setattr(owner, "listed", nothing_closed(owner.listed)),
    ),
    "batches not said in the ledger": (
        0,
        lambda patch: patch.setattr(
            share, "RecordsSent", lambda a, f, c, _p: owner.RecordsSent(a, f, c, None)
        ),
    ),
}
"""Each with a seed that has shown it, and what puts it in."""


@pytest.mark.sim
@pytest.mark.parametrize(("seed", "put_in"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found(seed, put_in, monkeypatch):
    put_in(monkeypatch)
    assert broken_by(checked, shown_by(seed, SEEDS_MAX))
