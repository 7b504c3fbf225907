from dafka.model import Batch, Partition
from dafka.storage.memory import MemoryLog

ORDERS = Partition("orders", "A1")


def test_keeps_the_identity_it_is_given():
    assert MemoryLog("AB" * 16).identity == "AB" * 16


def test_heads_are_a_copy():
    log = MemoryLog("AB" * 16)
    log.append([Batch(ORDERS, 0, 1, b"")])
    log.heads().clear()
    assert log.heads() == {ORDERS: 0}


def test_outlives_the_store_that_used_it():
    log = MemoryLog("AB" * 16)
    log.append([Batch(ORDERS, 0, 1, b"x")])
    log.close()
    assert log.read(ORDERS, 0, 1, 1) == [Batch(ORDERS, 0, 1, b"x")]
