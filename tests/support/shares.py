"""Tests of two clusters, once more where stores of the first share the slots."""

from __future__ import annotations

import pytest

also_shared = pytest.mark.parametrize(
    "pair",
    [pytest.param((), id="one store"), pytest.param(("2048-4095", "0-2047"), id="shared slots")],
    indirect=True,
)
"""The first store that is asked does not keep the partition that most tests are about."""
