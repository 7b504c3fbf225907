from __future__ import annotations

import pytest

from dafka.schemas.compatibility import Source
from dafka.schemas.rulings import (
    OBSTACLE_CHARACTERS_MAX,
    OBSTACLES_MAX,
    RULINGS_MAX,
    Case,
    Ruling,
    Rulings,
    Unjudged,
    judge,
)

INT, TEXT = Source("AVRO", '"int"'), Source("AVRO", '"string"')


def test_a_schema_by_itself_and_after_others():
    assert judge(Case(INT)) == Ruling()
    assert "not known" in judge(Case(Source("AVRO", '"nothing"'))).error
    assert judge(Case(INT, "BACKWARD", (INT,))) == Ruling()
    (obstacle,) = judge(Case(INT, "BACKWARD", (TEXT,))).obstacles
    assert "cannot read data of an earlier one" in obstacle


def test_what_is_said_is_bounded():
    fields = ",".join(f'"{"f" * 600}{n}": {{"minLength": {n + 1}}}' for n in range(40))
    new = Source("JSON", f'{{"type": "object", "properties": {{{fields}}}}}')
    old = Source("JSON", '{"type": "object"}')
    found = judge(Case(new, "BACKWARD", (old,))).obstacles
    assert len(found) == OBSTACLES_MAX + 1
    assert found[-1] == "and 20 more"
    assert max(map(len, found)) == OBSTACLE_CHARACTERS_MAX
    assert len(judge(Case(Source("AVRO", '"' + "x" * 5_000 + '"'))).error) < 600


def test_what_is_not_known_is_asked_for_and_the_oldest_is_forgotten():
    known = Rulings()
    questions = [Case(INT), Case(TEXT), Case(INT, "FULL", (TEXT,))]
    for question in questions:
        with pytest.raises(Unjudged) as missing:
            known.of(question)
        assert missing.value.case == question
    others = [Case(Source("AVRO", str(number))) for number in range(RULINGS_MAX - 2)]
    for number, question in enumerate([*questions[:2], *others, questions[2]]):
        known.found(question, Ruling(str(number)))
        known.of(questions[0])  # asked for again and again, it stays
    assert known.of(questions[2]).error == str(RULINGS_MAX)
    with pytest.raises(Unjudged):
        known.of(questions[1])


def test_what_was_compiled_is_bounded_by_its_size_and_the_latest_is_kept():
    known = Rulings(compiled_bytes_max=10)
    questions = [Case(INT), Case(TEXT), Case(INT, "FULL", (TEXT,))]
    known.found(questions[0], Ruling(compiled="x" * 6))
    known.found(questions[0], Ruling(compiled="x" * 5))
    known.found(questions[1], Ruling(compiled="y" * 5))
    assert known.of(questions[0]).compiled == "x" * 5
    known.found(questions[2], Ruling(compiled="z" * 50))
    assert known.of(questions[2]).compiled == "z" * 50
    for forgotten in questions[:2]:
        with pytest.raises(Unjudged):
            known.of(forgotten)
    known.found(questions[0], Ruling())
    known.found(questions[1], Ruling(compiled="y" * 10))
    assert known.of(questions[0]) == Ruling()


def test_a_schema_of_protobuf_is_compiled_when_it_is_judged():
    ruling = judge(Case(Source("PROTOBUF", "message A {}")))
    assert ruling.compiled
    assert judge(Case(Source("PROTOBUF", ruling.compiled))) == ruling
    assert "1:1" in judge(Case(Source("PROTOBUF", "{}"))).error
