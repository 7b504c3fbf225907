"""Any message between controllers and replicas, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from dafka.model import SLOTS, Partition
from distributor.control.aims import LinkPlace
from distributor.control.demands import Demands
from distributor.control.grants import Wished, Wishes
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    Canceled,
    CancelPeek,
    CreateFlow,
    CreateInstance,
    Flow,
    FlowDropped,
    FlowKind,
    FlowState,
    FlowStatus,
    Frontiers,
    Hello,
    HelloOk,
    InitializationComplete,
    Peek,
    PeekError,
    PeekResponse,
    Ping,
    Pong,
    Positions,
    Schedule,
    UpdateConfiguration,
)
from distributor.link.events import Hole
from topology.plan import Link

numbers = st.integers(0, 2**64 - 1)
small = st.integers(0, 2**32 - 1)
names = st.text(st.characters(codec="utf-8"), max_size=20)
octets = st.binary(min_size=1, max_size=249).map(lambda one: one.decode("utf-8", "surrogateescape"))


def built(kind, *fields):
    """Values of a kind. (`st.builds` would look up its annotations, also those for mypy only.)"""
    return st.tuples(*fields).map(lambda given: kind(*given))


ends = st.dictionaries(built(Partition, octets, octets), numbers, max_size=5)
links = st.builds(
    Link,
    source=names,
    level=small,
    branch=small,
    targets=st.lists(names, min_size=1, max_size=3).map(tuple),
    beyond=st.lists(names, max_size=3).map(tuple),
    span=st.lists(names, max_size=3).map(tuple),
    topics=names,
)
holes = st.builds(
    lambda partition, first, more: Hole(partition, first, first + more),
    st.builds(Partition, octets, octets),
    st.integers(0, 2**63),
    st.integers(1, 2**63 - 1),
)
some_holes = st.lists(holes, max_size=3).map(tuple)
flows = st.integers(1, SLOTS).flatmap(
    lambda shares: built(
        Flow,
        links,
        st.sampled_from(FlowKind),
        st.integers(0, shares - 1),
        st.just(shares),
        some_holes,
    )
)
answers = st.one_of(built(Positions, ends), built(PeekError, names), built(Canceled))
commands = st.one_of(
    built(Hello, names, numbers, small, small, names),
    built(CreateInstance, names, small),
    built(UpdateConfiguration, st.dictionaries(names, st.integers(-(2**63), 2**63 - 1))),
    built(CreateFlow, numbers, flows, ends),
    built(Schedule, numbers),
    built(AllowWrites, numbers, numbers),
    built(AllowCompaction, numbers, st.none() | ends),
    built(Peek, numbers, numbers, ends),
    built(CancelPeek, numbers),
    built(InitializationComplete),
    built(Ping, numbers),
)
responses = st.one_of(
    built(HelloOk, small, names),
    built(Frontiers, numbers, ends, ends, ends),
    built(FlowState, numbers, st.sampled_from(FlowStatus), numbers, names),
    built(FlowDropped, numbers),
    built(PeekResponse, numbers, answers),
    built(Pong, numbers, numbers),
)
places = built(LinkPlace, st.integers(0, 63), st.integers(0, 63), names)
wishes = built(
    Wishes,
    numbers,
    numbers,
    st.dictionaries(numbers, built(Wished, flows, names, numbers)),
    names,
    built(
        Demands,
        st.dictionaries(places, names, max_size=3),
        st.frozensets(small, max_size=3),
        small,
        st.dictionaries(places, some_holes, max_size=3),
    ),
)
