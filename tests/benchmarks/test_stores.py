from __future__ import annotations

import pytest

from benchmarks.stores import parts_of
from dafka.model import SLOTS


@pytest.mark.parametrize("stores", [1, 2, 6, 64])
@pytest.mark.parametrize("copies", [1, 2])
def test_each_slot_is_kept_so_often_and_shares_are_alike(stores, copies):
    copies = min(copies, stores)
    parts = parts_of(stores, copies)
    assert len(parts) == stores
    assert all(sum(part.has(slot) for part in parts) == copies for slot in range(SLOTS))
    sizes = [sum(len(one) for one in part.ranges()) for part in parts]
    assert max(sizes) - min(sizes) <= 1
