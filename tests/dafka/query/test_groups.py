from __future__ import annotations

import pytest

from dafka.groups.commit import Commit, CommitKey, encode
from dafka.groups.fold import fold
from dafka.model import Partition
from dafka.query import groups, messages
from dafka.query.groups import answered
from dafka.storage.memory import MemoryLog

A1, B2 = Partition("orders", "A1"), Partition("orders", "B2")


@pytest.fixture
def log(committed):
    log = MemoryLog("AB" * 16)
    rows = [("billing", A1, 3, 1, 10), ("billing", B2, None, 1, 10), ("audit", A1, 7, 1, 10)]
    batch = committed(0, *rows)
    log.append([batch], entries=fold(log, [batch]).entries)
    return log


def test_groups(log):
    assert answered(messages.Groups(), log) == messages.GroupPage((b"audit", b"billing"), False)
    assert answered(messages.Groups(b"audit"), log) == messages.GroupPage((b"billing",), False)


def test_commits_of_a_group_as_they_were_made(log):
    page = answered(messages.Offsets(b"billing"), log)
    first = encode(CommitKey("billing", A1), Commit(3, 1, 10))
    second = encode(CommitKey("billing", B2), Commit(None, 1, 10))
    assert set(page.commits) == {first, second}
    assert not page.more
    assert answered(messages.Offsets(b"nobody"), log) == messages.OffsetPage((), False)


def test_a_page_has_so_many_rows_and_says_whether_there_are_more(log, monkeypatch):
    monkeypatch.setattr(groups, "ROWS_MAX", 1)
    assert answered(messages.Groups(), log) == messages.GroupPage((b"audit",), True)
    assert answered(messages.Groups(b"billing"), log) == messages.GroupPage((), False)
    assert len(answered(messages.Offsets(b"billing"), log).commits) == 1
