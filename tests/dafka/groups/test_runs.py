from __future__ import annotations

import pytest

from dafka.errors import MisuseError, WireError
from dafka.groups.commit import checked_consumers, checked_group
from dafka.groups.membership import NOBODY, Member, Membership, decode, encode
from dafka.groups.runs import (
    DIGESTS,
    Manifest,
    RunPart,
    StagedRows,
    digest_of,
    enrolled,
    group_of,
    manifest_in,
)
from dafka.model import Partition

PART = RunPart(Partition("caf\udce9", "AB" * 16), 7, 3, "CD" * 16, 8, 2)
MANIFEST = Manifest(4, DIGESTS - 1, (PART, PART._replace(partition=Partition("t", "EF" * 16))))


def test_a_register_has_what_was_agreed_on():
    membership = decode(encode(enrolled(MANIFEST, 3)))
    assert manifest_in(membership) == MANIFEST
    assert membership.generation == 5, "the first run is 0, the first generation 1"
    assert (PART.end, MANIFEST.records) == (10, 6)


def test_before_the_first_run_there_is_nothing():
    assert manifest_in(NOBODY) is None


def test_a_run_may_have_no_rows():
    empty = Manifest(0, 0, ())
    assert manifest_in(enrolled(empty, 1)) == empty


@pytest.mark.parametrize(
    "topics",
    [
        (),
        (b"x",),
        (b"[1]",),
        (b"[1,[[1,2,3,4,5,6,7]]]",),
        (b'[1,[["t","a",-1,1,"s",1,1]]]',),
        (b'[1,[["t","a",1,1,"s",1]]]',),
        (b'[true,[["t","a",1,1,"s",1,1]]]',),
        (b"[[" * 100_000,),
    ],
)
def test_what_is_no_manifest_is_told(topics):
    with pytest.raises(WireError, match="membership"):
        manifest_in(Membership(1, 1, {"run": Member(topics, 1_000)}))


def test_a_run_of_too_many_parts_is_refused():
    with pytest.raises(MisuseError, match=r"20000 tasks and topics .*"):
        enrolled(Manifest(0, 0, (MANIFEST.parts[1],) * 20_000), 3)
    enrolled(Manifest(0, 0, (MANIFEST.parts[1],) * 8_000), 3)


def test_rows_are_the_same_by_count_and_digest():
    assert MANIFEST.has_the_rows_of(Manifest(9, DIGESTS - 1, (PART._replace(records=6),)))
    assert not MANIFEST.has_the_rows_of(MANIFEST._replace(digest=0))
    assert not MANIFEST.has_the_rows_of(MANIFEST._replace(parts=()))


def test_digests_are_added_up():
    segment = StagedRows("t", 0, "AB" * 16, 0, 1, 1, DIGESTS - 1)
    assert digest_of([segment, segment, segment._replace(digest=5)]) == 3


def test_each_key_has_a_group_of_its_own_in_which_nobody_consumes():
    names = {group_of(key) for key in ("query a", "query b", "x" * 10_000)}
    assert len(names) == 3
    for name in names:
        assert checked_group(name) == name
        with pytest.raises(MisuseError, match="that of the cluster's sinks"):
            checked_consumers(name)
