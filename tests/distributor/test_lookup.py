from __future__ import annotations

import pytest

from dafka.model import Partition
from dafka.records.envelope import Envelope
from distributor.lookup import look_up

pytestmark = pytest.mark.net

ORDERS = Partition("orders", "AB" * 16)


def test_every_cluster_tells_its_copy(pair, make_batch):
    pair.fill(1, make_batch([b"a", b"b"]))
    pair.fill(2, make_batch([b"a", b"b"], envelope=Envelope(origin=1, copy_flags=1, epoch=0)))
    with pair.running():
        one, two = look_up(pair.topology, ORDERS, 1)
        nowhere = look_up(pair.topology, ORDERS, 2)
    assert (one.cluster, one.record.value, one.record.copy_flags) == ("c1", b"b", 0)
    assert (two.cluster, two.record.value, two.record.copy_flags) == ("c2", b"b", 1)
    assert [(copy.record, copy.error) for copy in nowhere] == [(None, "")] * 2


def test_a_cluster_that_does_not_answer_is_said(pair, make_batch):
    pair.fill(1, make_batch([b"a"]))
    with pair.running(1):
        one, two = look_up(pair.topology, ORDERS, 0)
    assert one.record is not None
    assert two.record is None
    assert "cannot reach" in two.error
