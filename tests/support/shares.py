"""Tests of clusters once more where their stores share the slots."""

from __future__ import annotations

import pytest

from dafka.model import SLOTS, Slots

LOW, HIGH = Slots.of([range(SLOTS // 2)]), Slots.of([range(SLOTS // 2, SLOTS)])


def also_shared(fixture):
    """Two stores with half of the slots each, beside one with all, in what a fixture makes.

    The first that is asked does not keep the partition that most tests are about.
    """
    shares = [pytest.param((), id="one store"), pytest.param((HIGH, LOW), id="shared slots")]
    return pytest.mark.parametrize(fixture, shares, indirect=True)
