from __future__ import annotations

import pytest

from dafka.groups.events import PublishCommits
from dafka.model import Partition
from dafka.testing.group_nodes import Processed

PLACE = Partition("orders", "P0"), 7


def test_what_is_processed_once_is_not_repeated():
    processed = Processed()
    processed.times[PLACE] = [(10, "C0.1")]
    assert processed.repeated(100) == 0


def test_what_was_processed_shortly_before_its_members_end_may_be_repeated():
    processed = Processed()
    processed.times[PLACE] = [(10, "C0.1"), (500, "C1.1")]
    processed.ends["C0.1"] = [60]
    assert processed.repeated(100) == 1
    with pytest.raises(AssertionError):
        processed.repeated(49)


def test_what_a_living_member_has_processed_may_not_be_repeated():
    processed = Processed()
    processed.times[PLACE] = [(10, "C0.1"), (500, "C1.1")]
    with pytest.raises(AssertionError, match="lives"):
        processed.repeated(1_000)


def test_of_what_is_acknowledged_the_last_generation_holds():
    processed = Processed()
    for epoch, position in ((2, 7), (1, 9), (2, 8)):
        processed.commit(PublishCommits(1, epoch, {PLACE[0]: position}, {}))
    assert processed.committed == {PLACE[0]: (2, 8)}
