"""Mutated real examples: a decoder refuses with its own error, or understands.

What it understands it encodes again, and it takes no more memory than what came. `make fuzz` is the
long run; see docs/testing.md.
"""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import example, given, settings

from dafka.testing.mutation import edited, edits, random_edits
from tests.support.decoders import DECODERS

HYPOTHESIS_CASES = 300
"""Of each decoder: 6,000 in all, and they are shrunk. The other engine has the numbers."""

MEMORY_CASES = 100
MEMORY_BYTES_MAX = 8 << 20
"""A length that is believed before it is checked takes more: the largest here say 2 GiB or 4."""

every_decoder = pytest.mark.parametrize("decoder", DECODERS, ids=lambda one: one.name)


@pytest.fixture(scope="session")
def scratch(tmp_path_factory):
    """Where decoders of files have theirs."""
    return tmp_path_factory.mktemp("fuzzing") / "file"


def understood(decoder, frames, scratch):
    """Decode; whether it was understood. Anything but a refusal is raised."""
    try:
        value = decoder.read(frames, scratch)
    except decoder.refusals:
        return False
    if decoder.encode is not None:
        assert decoder.read(decoder.encode(value), scratch) == value
    return True


@every_decoder
def test_the_examples_are_understood(decoder, scratch):
    for frames in decoder.examples:
        assert understood(decoder, frames, scratch)


@every_decoder
@pytest.mark.timeout(3_600)
def test_mutated_bytes_raise_nothing_else(decoder, pytestconfig, scratch):
    chance = random.Random(46)
    found = {True: 0, False: 0}
    for _ in range(pytestconfig.getoption("--fuzz-cases") // decoder.cost):
        frames = edited(chance.choice(decoder.examples), random_edits(chance))
        found[understood(decoder, decoder.mended(frames), scratch)] += 1
    assert all(found.values()), found


@every_decoder
def test_what_breaks_a_decoder_is_shrunk(decoder, scratch):
    @settings(max_examples=max(HYPOTHESIS_CASES, settings.default.max_examples) // decoder.cost)
    @given(edits=edits)
    @example(edits=[])
    def holds(edits):
        for frames in decoder.examples[:1]:
            understood(decoder, decoder.mended(edited(frames, edits)), scratch)

    holds()


@every_decoder
def test_a_decoder_takes_no_more_memory_than_what_came(decoder, scratch):
    chance = random.Random(64)
    for _ in range(MEMORY_CASES // decoder.cost):
        frames = decoder.mended(edited(chance.choice(decoder.examples), random_edits(chance)))
        tracemalloc.start()
        try:
            understood(decoder, frames, scratch)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < MEMORY_BYTES_MAX
