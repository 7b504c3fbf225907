import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.copyflags import (
    EVERY_FLAG,
    LEVEL_MAX,
    bit,
    format_flags,
    in_epoch,
    levels_of,
    mask,
    should_forward,
    with_copied,
)

repeatable = settings(derandomize=True, deadline=None, max_examples=100)
levels = st.integers(1, LEVEL_MAX)
flag_words = st.integers(0, 2**LEVEL_MAX - 1)


def test_the_flags_of_the_distribution_model():
    assert (bit(1), bit(3)) == (0b0001, 0b0100)
    assert (mask(1), mask(3)) == (0b0001, 0b0111)


def test_the_highest_level_fits_a_signed_64_bit_number():
    assert mask(LEVEL_MAX) == 2**63 - 1


@pytest.mark.parametrize(
    ("flags", "level", "forwards"),
    [
        (0b0000, 1, True),
        (0b0000, 3, True),
        (0b0001, 1, False),
        (0b0001, 3, False),
        (0b0100, 3, False),
        (0b0100, 1, True),
        (0b0101, 1, False),
        (0b1000, 3, True),
    ],
)
def test_a_level_looks_at_its_own_flag_and_all_lower_ones(flags, level, forwards):
    assert should_forward(flags, level) is forwards


@repeatable
@given(flags=flag_words, level=levels)
def test_a_level_forwards_only_below_every_level_already_crossed(flags, level):
    assert should_forward(flags, level) == all(level < crossed for crossed in levels_of(flags))


@repeatable
@given(flags=flag_words, level=levels)
def test_no_level_is_crossed_twice(flags, level):
    assert not should_forward(with_copied(flags, level), level)


@repeatable
@given(flags=flag_words, level=levels)
def test_a_copy_keeps_the_flags_it_came_with(flags, level):
    assert set(levels_of(with_copied(flags, level))) == {*levels_of(flags), level}


@repeatable
@given(chosen=st.sets(levels))
def test_levels_are_read_back_lowest_first(chosen):
    assert levels_of(sum(map(bit, chosen))) == sorted(chosen)


@pytest.mark.parametrize(
    ("flags", "text"), [(0, "0000"), (1, "0001"), (5, "0101"), (0b10000, "10000")]
)
def test_flags_are_written_as_the_distribution_model_writes_them(flags, text):
    assert format_flags(flags) == text


def test_flags_have_a_digit_for_each_level_of_the_tree_and_at_least_four():
    assert [format_flags(1, top) for top in (0, 4, 6)] == ["0001", "0001", "000001"]


def test_flags_of_another_epoch_say_only_that_the_record_was_copied():
    assert in_epoch(0b0100, 2, 2) == 0b0100
    assert in_epoch(0b0100, 1, 2) == in_epoch(0b0100, 3, 2) == EVERY_FLAG
    # Published here and copied nowhere: that is so in every epoch.
    assert in_epoch(0, 0, 2) == 0
