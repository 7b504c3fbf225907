from __future__ import annotations

from collections import Counter

import pytest

from dafka.errors import QueryError, RefusedError
from dafka.model import Partition, replace
from dafka.query.messages import DigestRequest, DigestsRequest, decode_answer, encode
from dafka.query.service import answer
from dafka.records.batch import compressed_content
from dafka.records.compression import Codec
from dafka.records.envelope import Envelope
from dafka.storage.memory import MemoryLog
from dafka.wire.primitives import octets_of
from distributor.verify.divergence import Witness

A, B, C = (Partition("orders", letter * 32) for letter in "ABC")
COPIED = Envelope(1, 0b1)


class Store:
    """A store's query port, without a socket."""

    def __init__(self, *batches):
        self.log = MemoryLog("AB" * 16)
        self.log.append(batches)
        self.asked = Counter()

    def heads(self):
        return self.log.heads()

    def digest(self, partition, start, end, *, exact):
        self.asked[partition] += 1
        topic, address = map(octets_of, partition)
        question = DigestRequest(topic, address, start, end - start, exact)
        return decode_answer(answer(encode(question), self.log))

    def digests(self, spans):
        places = ((*map(octets_of, partition), span) for partition, span in spans.items())
        question = DigestsRequest(tuple((*place, span.start, len(span)) for *place, span in places))
        found = decode_answer(answer(encode(question), self.log))
        return dict(zip(spans, found.digests, strict=True))


def look(witness, source, target):
    spans = witness.due(source.heads(), target.heads())
    witness.look(source, target, spans)
    return spans


def test_one_look_at_the_last_common_record_tells_histories_apart(make_batch):
    source = Store(make_batch([b"1", b"2"], 0, A), make_batch([b"1", b"2"], 0, B))
    target = Store(make_batch([b"1"], 0, A, COPIED), make_batch([b"1", b"other"], 0, B, COPIED))
    witness = Witness()
    assert witness.waiting(target.heads()) == {A, B}
    assert look(witness, source, target) == {A: range(1), B: range(1, 2)}
    assert witness.diverged == {B: 1}
    assert witness.waiting(target.heads()) == frozenset()
    assert source.asked[A] == 2, "batches, then the record: they are not batched alike"
    assert look(witness, source, target) == {}


def test_what_cannot_be_read_keeps_nothing_else_waiting(make_batch):
    class Damaged(Store):
        def digests(self, spans):
            raise RefusedError("storage (a page is damaged)")

        def digest(self, partition, start, end, *, exact):
            if partition == A:
                raise RefusedError("storage (a page is damaged)")
            return super().digest(partition, start, end, exact=exact)

    batches = [make_batch([b"1"], 0, partition) for partition in (A, B, C)]
    source, target = Damaged(*batches), Store(*batches)
    witness = Witness()
    for _ in range(2):
        with pytest.raises(RefusedError, match="a page is damaged"):
            look(witness, source, target)
        assert witness.waiting(target.heads()) == {A}


def test_who_does_not_know_the_question_about_many_is_asked_about_each(make_batch):
    class Older(Store):
        def digests(self, spans):
            raise QueryError("query message")

    source = Store(make_batch([b"1"], 0, A), make_batch([b"1"], 0, B))
    target = Older(make_batch([b"1"], 0, A), make_batch([b"x"], 0, B))
    witness = Witness()
    look(witness, source, target)
    assert witness.diverged == {B: 0}
    assert witness.waiting(target.heads()) == frozenset()


def test_those_that_are_batched_alike_are_looked_at_together(make_batch):
    ends = [Store(*(make_batch([b"1"], 0, part) for part in (A, B, C))) for _ in range(2)]
    witness = Witness()
    assert len(look(witness, *ends)) == 3
    assert not ends[0].asked
    assert not ends[1].asked
    assert witness.waiting(ends[1].heads()) == frozenset()


def test_an_end_that_has_nothing_of_a_partition_is_not_asked_for_it(make_batch):
    source, target = Store(make_batch([b"1"], 0, A)), Store()
    witness = Witness()
    witness.look(source, target, {A: range(0)})
    assert witness.diverged == {}


def test_what_was_brought_to_an_empty_target_waits_for_no_look(make_batch):
    source, target = Store(*(make_batch([b"1"], 0, part) for part in (A, B))), Store()
    witness = Witness(looks_max=1)
    assert look(witness, source, target) == {}
    target.log.append([make_batch([b"1"], 0, part) for part in (A, B)])
    assert witness.waiting(target.heads()) == frozenset()
    turns = look(witness, source, target) | look(witness, source, target)
    assert turns == {A: range(1), B: range(1)}, "each in its turn"


def test_a_target_that_had_something_and_comes_back_is_looked_at_before_all(make_batch):
    source, target = (Store(*(make_batch([b"1"], 0, part) for part in (A, B))) for _ in range(2))
    witness = Witness(first_looks_max=1)
    look(witness, source, target)
    empty = Store()
    assert look(witness, source, empty) == {}
    assert look(witness, source, empty) == {}
    assert witness.waiting(target.heads()) == {A, B}
    assert len(look(witness, source, target)) == 1
    assert look(witness, source, empty) == {}, "neither the one seen nor the one that waited"
    assert witness.waiting(target.heads()) == {A, B}


def test_what_neither_end_has_any_more_is_forgotten(make_batch):
    source, target = Store(make_batch([b"1"], 0, A)), Store()
    witness = Witness()
    look(witness, source, target)
    look(witness, Store(), target)
    both = Store(make_batch([b"1"], 0, A))
    assert witness.waiting(both.heads()) == {A}


def test_what_is_not_kept_any_more_proves_nothing(make_batch):
    source, target = Store(make_batch([b"1"], 0, A)), Store(make_batch([b"x"], 0, A))
    source.log.append([], trims={A: 1})
    witness = Witness()
    look(witness, source, target)
    assert witness.diverged == {}


def test_what_comes_later_is_looked_at_too(make_batch):
    source, target = Store(make_batch([b"1"], 0, A)), Store(make_batch([b"1"], 0, A))
    witness = Witness()
    look(witness, source, target)
    for store, last in ((source, b"4"), (target, b"x")):
        store.log.append([make_batch([b"2", b"3"], 1, A), make_batch([last, b"5"], 3, A)])
    assert look(witness, source, target) == {A: range(1, 5)}
    assert witness.diverged == {A: 3}
    assert look(witness, source, target) == {}, "it is known to differ"


@pytest.mark.parametrize("emptied", ["source", "target"])
def test_an_end_that_was_emptied_is_looked_at_anew(make_batch, emptied):
    ends = {"source": Store(make_batch([b"1"], 0, A)), "target": Store(make_batch([b"x"], 0, A))}
    witness = Witness()
    look(witness, **ends)
    assert witness.diverged == {A: 0}
    ends[emptied] = Store()
    look(witness, **ends)
    found_out = {A: 0} if emptied == "source" else {}
    assert witness.diverged == found_out, "what the source does not list was not compared again"
    assert witness.waiting(ends["target"].heads()) == ends["target"].heads().keys()
    other = "target" if emptied == "source" else "source"
    for batch in ends[other].log.read(A, 0, 1, 1):
        ends[emptied].log.append([batch])
    assert look(witness, **ends) == {A: range(1)}
    assert witness.diverged == {}


def test_what_another_store_of_the_target_keeps_differs_as_before(make_batch):
    source, target = Store(make_batch([b"1"], 0, A)), Store(make_batch([b"x"], 0, A))
    witness = Witness()
    look(witness, source, target)
    assert witness.due(source.heads(), {}, kept={A}) == {}
    assert witness.diverged == {A: 0}
    assert witness.due({}, {}, kept={A}) == {}
    assert witness.diverged == {A: 0}
    assert look(witness, source, target) == {A: range(1)}, "it speaks again, and is looked at anew"
    assert witness.diverged == {A: 0}
    witness.due(source.heads(), {})
    assert witness.diverged == {}


def test_the_work_of_one_look_is_bounded_and_everybody_gets_a_turn(make_batch):
    parts = (A, B, C)
    source, target = (Store(*(make_batch([b"1"], 0, part) for part in parts)) for _ in range(2))
    witness = Witness(first_looks_max=2, looks_max=1, look_records_max=2)
    assert len(look(witness, source, target)) == 2
    assert len(witness.waiting(target.heads())) == 1
    assert len(look(witness, source, target)) == 1
    for store in (source, target):
        store.log.append([make_batch([b"2", b"3", b"4", b"5"], 1, part) for part in parts])
    turns = [look(witness, source, target) for _ in range(3)]
    assert sorted(part for turn in turns for part in turn) == list(parts)
    assert {span for turn in turns for span in turn.values()} == {range(3, 5)}


def test_what_was_looked_at_before_a_store_fell_silent_counts(make_batch):
    class Silent(Store):
        def digest(self, partition, start, end, *, exact):
            raise QueryError("silent")

    source = Store(make_batch([b"1"], 0, A), make_batch([b"1", b"2"], 0, B))
    target = Silent(make_batch([b"1"], 0, A), make_batch([b"1"], 0, B))
    witness = Witness()
    with pytest.raises(QueryError):
        witness.look(source, target, {A: range(1), B: range(1)})
    assert witness.waiting(target.heads()) == {B}


def test_who_is_looked_at_first_is_the_same_in_every_process():
    """Names are hashed anew in each: a seed of the simulator shows the same run all the same."""
    names = [Partition("orders", f"{number:032}") for number in range(50)]
    there = dict.fromkeys(reversed(names), 0)
    witness = Witness(looks_max=50)
    assert list(witness.due(there, {})) == []
    assert list(witness.due(dict.fromkeys(names, 1), there)) == names
    assert list(Witness(first_looks_max=5).due(there, there)) == names[:5]


def compressed(batch):
    return replace(batch, content=compressed_content(batch.content, Codec.ZSTD))


def test_what_links_compress_is_the_same_and_asks_for_no_records(make_batch):
    values = [b"x" * 100] * 20
    other = [*values[:-1], b"other"]
    source = Store(make_batch(values, 0, A), make_batch(values, 0, B))
    target = Store(
        compressed(make_batch(values, 0, A, COPIED)), compressed(make_batch(other, 0, B, COPIED))
    )
    witness = Witness()
    assert look(witness, source, target) == {A: range(19, 20), B: range(19, 20)}
    assert witness.diverged == {B: 19}
    assert source.asked[A] == target.asked[A] == 1, "the batch as it was"
