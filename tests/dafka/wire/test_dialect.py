"""Which dialects there are."""

from __future__ import annotations

import pytest

from dafka.errors import MisuseError
from dafka.wire import libdafka, rfc46
from dafka.wire.dialect import DEFAULT_DIALECT, SETTLING_MS, Company, DialectWatch, dialect
from dafka.wire.messages import Head, MessageId


def test_dialects_are_named():
    assert dialect("libdafka") is libdafka
    assert dialect("rfc46") is dialect(DEFAULT_DIALECT) is rfc46


def test_an_unknown_name_is_refused_and_says_which_there_are():
    with pytest.raises(MisuseError, match="wire 'kafka' is not known: rfc46 or libdafka"):
        dialect("kafka")


def test_one_of_ours_is_known_by_what_it_subscribes_to():
    watch = DialectWatch()
    for prefix in (b"F", b"G", b"WAA", b"DAA"):
        watch.subscribed(prefix)
        assert watch.company(0) is Company.UNKNOWN
    watch.subscribed(rfc46.prefix(*DialectWatch.mark("AA")))
    watch.subscribed(b"DBB")
    assert watch.company(10 * SETTLING_MS) is Company.ALIKE


def test_whoever_asks_for_single_records_only_is_another():
    watch = DialectWatch()
    watch.subscribed(b"DAA")
    assert watch.company(5) is Company.UNKNOWN
    assert watch.company(4 + SETTLING_MS) is Company.UNKNOWN
    assert watch.company(5 + SETTLING_MS) is Company.OTHER
    watch.subscribed(rfc46.prefix(*DialectWatch.mark("BB")))
    assert watch.company(9_000) is Company.ALIKE, "somebody has come"


@pytest.mark.parametrize("prefix", [libdafka.prefix(MessageId.ACK, "AA"), b"DAA"])
def test_who_claims_to_be_another_does_not_outweigh_one_of_ours_behind_him(prefix):
    watch = DialectWatch()
    watch.subscribed(prefix)
    assert watch.company(0) is Company.UNKNOWN
    watch.subscribed(rfc46.prefix(*DialectWatch.mark("BB")))
    assert watch.company(2 * SETTLING_MS) is Company.ALIKE


def test_one_of_ours_in_the_other_dialect_is_known_by_the_end_of_its_subscriptions():
    watch = DialectWatch()
    watch.subscribed(libdafka.prefix(MessageId.ACK, "AA"))
    watch.company(0)
    assert watch.company(SETTLING_MS) is Company.OTHER


def test_a_message_tells_too():
    head = Head("flights", "AA", 1)
    watch = DialectWatch()
    watch.arrived([b"nonsense"], readable=False)
    watch.company(0)
    assert watch.company(SETTLING_MS) is Company.UNKNOWN
    watch.arrived(libdafka.encode(head), readable=False)
    watch.company(SETTLING_MS)
    assert watch.company(2 * SETTLING_MS) is Company.OTHER
    watch.arrived(rfc46.encode(head), readable=True)
    assert watch.company(2 * SETTLING_MS) is Company.ALIKE


def test_it_is_as_old_as_the_first_question():
    watch = DialectWatch()
    assert watch.age_ms(5_000) == 0
    watch.company(5_000)
    watch.company(9_000)
    assert watch.age_ms(9_000) == 4_000
