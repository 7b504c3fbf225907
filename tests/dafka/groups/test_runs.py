from __future__ import annotations

import json

import pytest

from dafka.errors import MisuseError, WireError
from dafka.groups.commit import checked_consumers, checked_group
from dafka.groups.membership import NOBODY, Member, Membership, decode, encode
from dafka.groups.runs import (
    DIGESTS,
    RECENT_RUNS,
    AgreedRun,
    Manifest,
    RunState,
    StagedRows,
    TopicSink,
    enrolled_run,
    enrolled_sink,
    group_of_key,
    group_of_topic,
    run_in,
    sink_in,
)

ROWS = StagedRows("caf\udce9", 2, "CD" * 16, 8, 2, 4, ((0, 3), (3, 1)), DIGESTS - 1)
OTHER = ROWS._replace(topic="t", partitions=2, rows=((1, 5),), digest=3)
RUN = Manifest("query q", 4, True, (ROWS, OTHER))
SINK = TopicSink(7, "5eed", (10, 0, 2, 6), ("job j",), RUN)


@pytest.mark.parametrize("state", RunState)
def test_the_register_of_a_key_has_its_last_run(state):
    membership = decode(encode(enrolled_run(AgreedRun(RUN, state), 9, 3)))
    assert run_in(membership) == (RUN, state)
    assert (membership.generation, membership.stores) == (9, 3)


def test_the_register_of_a_topic_has_its_partitions_and_its_last_run():
    for sink in (SINK, SINK._replace(last=None), SINK._replace(recent=())):
        assert sink_in(decode(encode(enrolled_sink(sink, 3)))) == sink


def test_before_the_first_run_there_is_nothing():
    assert run_in(NOBODY) is None
    assert sink_in(NOBODY) is None


def test_a_run_may_have_no_rows():
    empty = AgreedRun(Manifest("query q", 0, True, ()))
    assert run_in(enrolled_run(empty, 1, 1)) == empty
    assert (empty.manifest.records, empty.manifest.digest, empty.manifest.topics) == (0, 0, {})


def says(value):
    return Membership(1, 1, {"run": Member((json.dumps(value).encode(),), 1_000)})


SEGMENT = ["t", 0, "AB", 0, 1, 4, [3, 1], 5]


@pytest.mark.parametrize(
    "segment",
    [
        [],
        [None, *SEGMENT[1:]],
        ["t", -1, *SEGMENT[2:]],
        ["t", 0, 7, *SEGMENT[3:]],
        [*SEGMENT[:3], True, *SEGMENT[4:]],
        [*SEGMENT[:6], [3], 5],
        [*SEGMENT[:6], [4, 1], 5],
        [*SEGMENT[:6], [3, -1], 5],
        [*SEGMENT, 1],
    ],
)
def test_what_is_no_manifest_is_told(segment):
    assert run_in(says([0, ["k", 0, 1, [SEGMENT]]])) is not None
    for value in ([0, ["k", 0, 1, [segment]]], ["k"], [3, ["k", 0, 1, []]], [0, [7, 0, 1, []]]):
        with pytest.raises(WireError, match="membership"):
            run_in(says(value))
    with pytest.raises(WireError, match="membership"):
        sink_in(says(["seed", [1], [], ["k", 0, 1, [segment]]]))


@pytest.mark.parametrize(
    "value",
    [
        [],
        ["seed", [], [], None],
        ["seed", [-1], [], None],
        ["seed", [0] * 4_097, [], None],
        [5, [1], [], None],
        ["seed", [1], [1], None],
        ["seed", [1], [], 7],
        ["seed", 1, [], None],
    ],
)
def test_what_is_no_sink_is_told(value):
    assert sink_in(says(["seed", [1], [], None])) == TopicSink(1, "seed", (1,))
    with pytest.raises(WireError, match="membership"):
        sink_in(says(value))


@pytest.mark.parametrize("topics", [(), (b"x",), (b"[[" * 100_000,)])
def test_what_is_not_ours_at_all_is_told(topics):
    for read in (run_in, sink_in):
        with pytest.raises(WireError, match="membership"):
            read(Membership(1, 1, {"run": Member(topics, 1_000)}))


def test_a_run_of_too_many_parts_is_refused():
    few, many = (Manifest("query q", 0, True, (OTHER,) * count) for count in (8_000, 20_000))
    with pytest.raises(MisuseError, match=r"20000 tasks and topics .*"):
        enrolled_run(AgreedRun(many), 1, 3)
    with pytest.raises(MisuseError, match=r"20000 tasks and topics .*"):
        enrolled_sink(SINK._replace(last=many), 3)
    enrolled_run(AgreedRun(few), 1, 3)


def test_what_a_manifest_says_of_its_rows():
    assert (RUN.records, RUN.digest) == (9, 2)
    assert list(RUN.topics.items()) == [("caf\udce9", 4), ("t", 2)]
    twice = RUN._replace(segments=(ROWS, ROWS, OTHER))
    assert twice.rows_of("caf\udce9") == {0: 6, 3: 2}


def test_a_run_is_known_by_its_key_and_number():
    assert RUN.is_that_of(RUN._replace(segments=()))
    assert not RUN.is_that_of(RUN._replace(run=5))
    assert not RUN.is_that_of(RUN._replace(key="query r"))
    assert not RUN.is_that_of(None)


def test_a_run_goes_behind_what_is_there():
    sink = TopicSink(1, "5eed", (0, 0))
    for run, firsts in ((0, {1: range(5)}), (1, {1: range(5, 10)})):
        sink = sink.after("t", RUN._replace(run=run))
        assert sink.parts("t") == firsts
    assert (sink.generation, sink.seed, sink.ends) == (3, "5eed", (0, 10))
    assert sink.parts("another") == {}
    assert sink.without_last().parts("t") == {}


def test_other_partitions_begin_anew():
    sink = TopicSink(1, "5eed", (7, 7)).after("t", RUN, "other")
    assert (sink.seed, sink.ends, sink.parts("t")) == ("other", (0, 5), {1: range(5)})


def test_of_runs_that_nobody_can_repeat_the_latest_are_named():
    sink = TopicSink(1, "5eed", (0, 0))
    for number in range(RECENT_RUNS + 3):
        sink = sink.after("t", RUN._replace(key=f"job {number}", shared=number == 70))
    assert sink.recent == tuple(f"job {number}" for number in range(2, RECENT_RUNS + 2))
    assert sink.last.key not in sink.recent, "that one is there whole"
    named = sink.after("t", RUN).after("t", RUN).recent
    assert named[-1] == "job 66", "who has a key asks there"
    assert sink.without_last().recent == named


def test_each_key_and_topic_has_a_group_of_its_own_in_which_nobody_consumes():
    keys = [group_of_key(key) for key in ("query a", "query b", "x" * 10_000, "caf\udce9")]
    topics = [
        group_of_topic(*of) for of in (("a",), ("b",), ("query a",), ("a", "M"), ("caf\udce9",))
    ]
    assert len({*keys, *topics}) == 9
    for name in keys + topics:
        assert checked_group(name) == name
        with pytest.raises(MisuseError, match="that of the cluster's sinks"):
            checked_consumers(name)
