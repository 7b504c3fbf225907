from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import CommitError, MisuseError
from dafka.groups.commit import (
    GATEWAYS,
    Commit,
    CommitKey,
    checked_address,
    checked_consumers,
    checked_group,
    decode,
    encode,
)
from dafka.limits import COMMIT_BYTES_MAX, COMMIT_METADATA_BYTES_MAX
from dafka.model import Partition
from dafka.testing.strategies import commit_keys, commits
from dafka.wire.primitives import text

KEY = CommitKey("billing", Partition("orders", "A1"))
COMMIT = Commit(35, 7, 1_700_000_000_000, 2, 0b101, "mine")


@given(commit_keys, commits)
def test_every_commit_survives(key, commit):
    assert decode(*encode(key, commit)) == (key, commit)


def test_literal_bytes():
    key, value = encode(KEY, COMMIT)
    assert key == b'{"group": "billing", "topic": "orders", "address": "A1"}'
    assert value == (
        b'{"version": 1, "position": 35, "epoch": 7, "commit_ms": 1700000000000, "origin": 2, '
        b'"copy_flags": 5, "metadata": "mine", "record_ms": null}'
    )


def test_how_far_it_has_come_elsewhere_is_said_only_where_that_is_further():
    assert b"processed" not in encode(KEY, COMMIT)[1]
    further = replace(COMMIT, processed=90)
    assert encode(KEY, further)[1].endswith(b'"processed": 90}')
    assert (COMMIT.reached, further.reached) == (35, 90)


def test_names_may_be_any_bytes():
    key = CommitKey("é", Partition(text(b"\xff\xfe"), text(b"\xfe\0")))
    assert decode(*encode(key, COMMIT))[0] == key


def test_the_largest_commit_fits():
    key = CommitKey("g" * 249, Partition(text(b"\xff" * 249), text(b"\xff" * 255)))
    metadata = "\1" * COMMIT_METADATA_BYTES_MAX
    commit = Commit(2**63 - 1, 2**62, 2**63 - 1, 2**16 - 1, 2**64 - 1, metadata)
    assert decode(*encode(key, commit)) == (key, commit)


def changed(**fields):
    key, value = encode(KEY, COMMIT)
    about, says = json.loads(key), json.loads(value)
    for name, what in fields.items():
        (about if name in about else says)[name] = what
    return json.dumps(about).encode(), json.dumps(says).encode()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"version": 2}, "version"),
        ({"version": "1"}, "version"),
        ({"surplus": 1}, "fields"),
        ({"position": -1}, "number"),
        ({"position": True}, "number"),
        ({"position": 1.0}, "number"),
        ({"position": "1"}, "number"),
        ({"position": 2**63}, "number"),
        ({"epoch": None}, "number"),
        ({"epoch": 2**62 + 1}, "number"),
        ({"commit_ms": -1}, "number"),
        ({"origin": 2**16}, "number"),
        ({"copy_flags": 2**64}, "number"),
        ({"metadata": None}, "text"),
        ({"metadata": "\ud800"}, "text"),
        ({"metadata": "x" * (COMMIT_METADATA_BYTES_MAX + 1)}, "metadata size"),
        ({"group": ""}, "name"),
        ({"group": "a\0b"}, "name"),
        ({"group": "g" * 250}, "name"),
        ({"group": 7}, "text"),
        ({"topic": ""}, "name"),
        ({"topic": "t" * 250}, "name"),
        ({"address": ""}, "name"),
        ({"address": "a" * 256}, "name"),
    ],
)
def test_what_is_no_commit_is_refused(fields, reason):
    with pytest.raises(CommitError) as refused:
        decode(*changed(**fields))
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (None, "empty"),
        (b"", "syntax"),
        (b"\xff", "syntax"),
        (b"[]", "fields"),
        (b"{}", "fields"),
        (b"NaN", "fields"),
        (b"[" * 20_000, "syntax"),
        (b'{"group": "a", "group": "b"}', "syntax"),
        (b" " * (COMMIT_BYTES_MAX + 1), "size"),
        (b"1" * 5_000, "syntax"),
    ],
)
def test_bytes_that_are_no_object_are_refused(octets, reason):
    key, value = encode(KEY, COMMIT)
    with pytest.raises(CommitError) as refused:
        decode(octets, value)
    assert refused.value.reason == reason
    with pytest.raises(CommitError):
        decode(key, octets)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_raise_nothing_else(key, value):
    with pytest.raises(CommitError):
        decode(key, value)


def test_what_breaks_a_limit_is_the_callers_fault():
    with pytest.raises(MisuseError, match="metadata size"):
        encode(KEY, Commit(0, 0, 0, metadata="x" * (COMMIT_METADATA_BYTES_MAX + 1)))
    with pytest.raises(MisuseError, match="number"):
        encode(KEY, Commit(-1, 0, 0))


@pytest.mark.parametrize("group", ["", "a\0b", "g" * 250, None, 7, "\ud800"])
def test_groups_that_cannot_be(group):
    with pytest.raises(MisuseError, match="group"):
        checked_group(group)


def test_the_gateways_are_no_group_of_consumers():
    assert checked_group(GATEWAYS) == GATEWAYS
    assert checked_consumers("billing") == "billing"
    for group in (GATEWAYS, ""):
        with pytest.raises(MisuseError):
            checked_consumers(group)


def test_groups_that_can_be():
    assert checked_group("billing") == "billing"
    assert checked_address("A1") == "A1"


def test_the_epoch_goes_before_the_clock():
    replaced, successor = Commit(90, 7, 2_000), Commit(50, 8, 1_000)
    assert successor.rank() > replaced.rank()


def test_in_one_epoch_the_later_commit_holds_also_if_it_goes_back():
    assert Commit(10, 7, 2_000).rank() > Commit(90, 7, 1_000).rank()


def test_forgetting_has_a_rank_too():
    assert Commit(None, 7, 2_000).rank() > Commit(90, 7, 1_000).rank()


@given(commits, commits)
def test_two_commits_have_one_rank_only_if_they_are_equal(one, other):
    assert (one.rank() == other.rank()) is (one == other)
