import pytest

from dafka.errors import StorageError
from dafka.model import Batch, Partition
from dafka.storage.growth import heads_after

ORDERS = Partition("orders", "A1")
OTHERS = Partition("orders", "B2")


def test_only_what_grows_is_returned():
    batches = [Batch(ORDERS, 5, 2, b""), Batch(ORDERS, 7, 3, b"")]
    assert heads_after({ORDERS: 4, OTHERS: 1}, batches) == {ORDERS: 9}


@pytest.mark.parametrize("sequence", [3, 4, 6])
def test_a_gap_and_an_overlap_are_refused(sequence):
    with pytest.raises(StorageError, match=f"sequence {sequence} follows 4"):
        heads_after({ORDERS: 4}, [Batch(ORDERS, sequence, 1, b"")])
