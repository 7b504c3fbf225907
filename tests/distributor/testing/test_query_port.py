from __future__ import annotations

from dafka.records.digest import digest_of_batches, digest_of_headers, digest_of_records
from dafka.storage.memory import MemoryLog
from distributor.testing.query_port import QueryPort


def test_it_answers_as_a_store_does(make_batch):
    held = make_batch([b"0", b"1", b"2"])
    log = MemoryLog("STORE")
    log.append([held])
    port, place = QueryPort(log), held.partition
    whole = port.digest(place, 0, 3, exact=False)
    assert (whole.start, whole.end, whole.digest) == (0, 3, digest_of_batches([held]))
    exact = port.digest(place, 1, 3, exact=True)
    assert (exact.start, exact.end, exact.digest) == (1, 3, digest_of_records([held], 1, 3))
    assert port.digests({place: range(1, 2)}) == {place: (0, 3, digest_of_headers([held]))}
