from __future__ import annotations

import pytest

from dafka.errors import WireError
from dafka.groups.link_sync import SYNC_MS_MAX, LinkSync
from dafka.limits import LINKS_MAX
from dafka.storage.memory import MemoryLog


@pytest.fixture
def log():
    return MemoryLog("S")


def test_where_no_link_has_ever_come_none_is_waited_for(log):
    assert LinkSync(log, 0).in_sync(0)


def test_links_of_before_are_waited_for_when_it_is_opened_again(log):
    first = LinkSync(log, 0)
    assert first.told("a", 2_000, in_sync=False) == (False, False)
    assert first.told("a", 2_000, in_sync=True) == (True, False)
    first.told("b", 2_000, in_sync=True)
    assert first.told("a", 2_000, in_sync=False) == (True, False)
    again = LinkSync(log, 1_000)
    assert again.told("a", 2_000, in_sync=False) == (False, True), "which says: look at all again"
    assert not again.in_sync(1_000)
    assert again.told("a", 2_000, in_sync=True) == (True, True), "b is waited for"
    assert not again.in_sync(1_001)
    again.told("b", 2_000, in_sync=True)
    assert again.in_sync(1_002)


def test_a_link_that_does_not_come_is_waited_for_once_and_not_for_ever(log):
    LinkSync(log, 0).told("gone", 2_000, in_sync=True)
    again = LinkSync(log, 5)
    assert not again.in_sync(4 + SYNC_MS_MAX)
    assert again.told("another", 4 + SYNC_MS_MAX, in_sync=False).awaited
    assert not again.told("another", 5 + SYNC_MS_MAX, in_sync=False).awaited
    assert again.in_sync(5 + SYNC_MS_MAX)
    assert LinkSync(log, 0).in_sync(0)
    again.told("gone", 2_000, in_sync=True)
    assert not LinkSync(log, 0).in_sync(0), "it has come back"


def test_they_are_bounded(log):
    sync = LinkSync(log, 0)
    for number in range(LINKS_MAX):
        sync.told(str(number), 2_000, in_sync=True)
    with pytest.raises(WireError, match="links"):
        sync.told("another", 2_000, in_sync=True)
    assert sync.told("0", 2_000, in_sync=True).known
