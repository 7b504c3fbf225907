"""Each anomaly in a history of a few calls, and the same history without it."""

from __future__ import annotations

import pytest

from dafka.testing.registry_checker import check_calls, condensed
from dafka.testing.registry_nodes import Call, ClientRequest, Reading, RequestKind, ToldVersion

HOME, LIFE = "home", "R0.1"


def reading(*held, level="BACKWARD", mode="READWRITE"):
    return Reading(dict(enumerate(held, 1)), level, mode)


def call(action, word, began_ms, *, life=LIFE, cluster=HOME, subject="a", **rest):
    rest.setdefault("ended_ms", began_ms + 1)
    return Call(ClientRequest(action, subject, word), cluster, life, began_ms, **rest)


def registered(text, id_, began_ms=0, **rest):
    return call(RequestKind.REGISTER, text, began_ms, id=id_, **rest)


def read(told, began_ms=90, **rest):
    return call(RequestKind.READ, "", began_ms, reading=told, **rest)


def names(calls, *last):
    return {problem.partition(" ")[0] for problem in check_calls(calls, last, HOME)}


INT, TEXT = ToldVersion(1, "int", live=True), ToldVersion(2, "text", live=True)
GONE = ToldVersion(1, "int", live=False)
REGISTERED = registered("int", 1, reading=reading(INT))


def test_a_sound_history_has_no_problem():
    later = registered("text", 2, 10, life="R1.1", reading=reading(INT, TEXT))
    last = [read(reading(INT, TEXT)), read(reading(INT, TEXT), life="R1.1")]
    assert names([REGISTERED, later], *last) == set()


@pytest.mark.parametrize(
    ("wanted", "calls", "last"),
    [
        ("S1", [REGISTERED, registered("text", 1, 10)], [read(reading(INT))]),
        ("S2", [REGISTERED, registered("text", 2, 10)], [read(reading(TEXT, INT))]),
        ("S3", [REGISTERED], [read(reading())]),
        ("S4", [REGISTERED], [read(reading(INT, TEXT))]),
        ("S4", [REGISTERED, registered("text", 0, code=409)], [read(reading(INT, TEXT))]),
        ("S5", [REGISTERED, call(RequestKind.DELETE, "1", 10)], [read(reading(INT))]),
        ("S6", [call(RequestKind.SET_LEVEL, "FULL", 0)], [read(reading())]),
        ("S6", [call(RequestKind.SET_MODE, "READONLY", 0)], [read(reading())]),
        ("S6", [call(RequestKind.SET_MODE, "READONLY", 0), read(reading(), 10)], []),
        ("S7", [call(RequestKind.SET_MODE, "READONLY", 0), registered("int", 1, 10)], []),
        ("S7", [registered("int", 1, cluster="elsewhere")], []),
        (
            "S7",
            [call(RequestKind.PROMOTE, "elsewhere", 0, subject=""), registered("int", 1, 10)],
            [],
        ),
        ("S8", [REGISTERED], [read(reading(INT)), read(reading(GONE), life="R1.1")]),
        ("S9", [REGISTERED], [read(None, code=40403)]),
    ],
)
def test_each_problem_is_found(wanted, calls, last):
    assert wanted in names(calls, *last)


def test_what_was_acknowledged_after_the_last_questions_need_not_be_in_their_answers():
    assert names([registered("int", 1, ended_ms=95)], read(reading())) == set()


@pytest.mark.parametrize("rest", [{"ended_ms": None}, {"code": 50001}, {"code": 50003}])
def test_what_nobody_knows_the_end_of_may_have_happened_or_not(rest):
    unknown = [
        registered("int", 0, **rest),
        call(RequestKind.DELETE, "1", 10, **rest),
        call(RequestKind.SET_MODE, "READONLY", 20, **rest),
    ]
    assert names(unknown, read(reading())) == set()
    assert names(unknown, read(reading(INT, mode="READONLY"))) == set()
    assert names(unknown, read(reading(GONE))) == set()


def test_a_question_need_not_know_what_another_registry_was_told():
    changed = call(RequestKind.SET_MODE, "READONLY", 0, life="R1.1")
    assert names([changed, read(reading(), 10)]) == set()


def test_what_begins_anew_may_be_another():
    emptied = call(RequestKind.DELETE_FOR_GOOD, "1", 10)
    again = registered("text", 2, 20, reading=reading(TEXT))
    assert names([REGISTERED, emptied, again], read(reading(TEXT))) == set()


def test_what_is_there_already_may_be_asked_for_where_nothing_is_registered():
    other = registered("int", 1, 10, cluster="elsewhere")
    assert names([REGISTERED, other], read(reading(INT))) == set()


def test_of_many_the_first_are_shown():
    assert condensed([*["S1 a: x"] * 6, "S2 b: y"]) == [*["S1 a: x"] * 4, "S1 a: 2 more", "S2 b: y"]
