from __future__ import annotations

import pytest

from dafka.model import Partition
from dafka.query.client import StoreClient
from dafka.records.envelope import Envelope
from distributor.divergence import Witness

pytestmark = pytest.mark.net

A, B, C = (Partition("orders", letter * 32) for letter in "ABC")


def test_one_look_at_the_last_common_record_tells_histories_apart(pair, make_batch):
    copied = Envelope(1, 0b1)
    pair.fill(1, make_batch([b"1", b"2"], 0, A), make_batch([b"1", b"2"], 0, B))
    pair.fill(2, make_batch([b"1"], 0, A, copied), make_batch([b"1", b"other"], 0, B, copied))
    with pair.running(), client_of(pair, 0) as ours, client_of(pair, 1) as theirs:
        witness = Witness()
        source, target = ours.heads(), theirs.heads()
        assert sorted(witness.waiting({**source, C: 4}, target)) == [A, B]
        witness.compare(ours, theirs, {A: 0, B: 1})
        assert witness.diverged == {B}
        assert witness.waiting(source, target) == []
        witness.compare(ours, theirs, {C: 0})
        assert witness.diverged == {B}, "what is not there any more proves nothing"


def client_of(pair, index):
    return StoreClient(pair.topology.clusters[index].stores[0].query)
