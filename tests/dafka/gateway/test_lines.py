from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.gateway.broker import KafkaPartition
from dafka.gateway.events import LedgerLine, LineKind, Produced
from dafka.gateway.lines import chain_address, chain_name, chain_of, decoded, encoded, kind_of

ORDERS = KafkaPartition("orders", 3)
GATEWAY = "0123456789ABCDEF" * 2

LINES = [
    LedgerLine(7, 0, LineKind.BEGIN, 40),
    LedgerLine(7, 1, LineKind.ENTRY, 40, "A" * 32, 5, 2),
    LedgerLine(7, 2, LineKind.ENTRY, 42, "A" * 32, 7, 3, Produced(2**60, 1, 9, 3)),
    LedgerLine(7, 3, LineKind.SKIP, 0, "B" * 32, 2**62),
    LedgerLine(7, 4, LineKind.PRODUCED, 30, "", 0, 4, Produced(0, 0, 0, 4)),
    LedgerLine(7, 5, LineKind.OPEN, 45, "C" * 32),
    LedgerLine(7, 6, LineKind.TRIM, 41),
    LedgerLine(7, 7, LineKind.SETTLED, 41),
]


def values():
    return [(line.number, encoded(line, ORDERS)) for line in LINES]


def test_a_chain_is_read_as_it_was_written():
    assert chain_of(values(), ORDERS, 7) == LINES


def test_a_chain_of_another_partition_or_epoch_is_none():
    assert chain_of(values(), KafkaPartition("orders", 4), 7) == []
    assert chain_of(values(), KafkaPartition("order", 3), 7) == []
    assert chain_of(values(), ORDERS, 8) == []
    assert chain_of(values()[1:], ORDERS, 7) == []


def test_a_chain_ends_before_what_is_no_line():
    assert chain_of([*values()[:3], (3, b""), *values()[4:]], ORDERS, 7) == LINES[:3]
    assert chain_of([*values()[:3], (3, None), *values()[4:]], ORDERS, 7) == LINES[:3]


def test_a_chain_is_read_from_its_first_beginning_on():
    again = [(number + 8, value) for number, value in values()]
    moved = [line._replace(number=line.number + 8) for line in LINES]
    assert chain_of([*values()[4:], *again], ORDERS, 7) == moved
    assert chain_of([*values(), *again], ORDERS, 7) == [*LINES, *moved]


def test_an_address_says_whose_chain_it_is():
    address = chain_address(GATEWAY, ORDERS, 7)
    assert address == "0123456789ABCDEF" + address[16:24] + "00000007"
    name = chain_name(address)
    assert name == (int(address[16:24], 16), 7)
    assert name.mark != chain_name(chain_address(GATEWAY, KafkaPartition("orders", 4), 7)).mark
    assert chain_name("A1") is None
    assert chain_name(address.lower()) is None


@pytest.mark.parametrize(
    "line",
    [
        LedgerLine(7, 1, LineKind.ENTRY, 40, "A", 5, 0),
        LedgerLine(7, 1, LineKind.ENTRY, -1, "A", 5, 1),
        LedgerLine(7, 1, LineKind.ENTRY, 40, "A", -5, 1),
        LedgerLine(7, 1, LineKind.ENTRY, 40, "A" * 256, 5, 1),
        LedgerLine(7, 1, LineKind.ENTRY, 2**62 + 1, "A", 5, 1),
    ],
)
def test_a_line_that_cannot_be_is_none(line):
    assert decoded(encoded(line, ORDERS), 7, 1) is None


def test_what_kind_a_line_is_shows_without_reading_it():
    assert [kind_of(value) for _, value in values()] == [line.kind for line in LINES]
    assert kind_of(None) is kind_of(b"") is kind_of(b"\xff") is None


@given(st.binary(max_size=100))
def test_no_octets_raise(octets):
    assert decoded(octets, 1, 1) is None or decoded(octets, 1, 1)[0].number == 1
