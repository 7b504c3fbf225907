"""Whether a replica lives."""

from __future__ import annotations

from distributor.control.events import SessionEnd, SessionSettings
from distributor.control.liveness import Liveness
from distributor.control.messages import Ping, Pong

SETTINGS = SessionSettings(ping_ms=1_000, silence_ms=3_000, stall_ms=2_000)


def test_it_asks_at_once_and_then_at_an_interval():
    one = Liveness(SETTINGS, 100)
    assert one.due_ms == 100
    assert one.ping(100) == Ping(1)
    assert one.ping(2_000) is None, "one is under way"
    one.take(Pong(1, 7), 2_000)
    assert one.due_ms == 1_100
    assert one.ping(2_000) == Ping(2)


def test_it_does_not_ask_too_often():
    one = Liveness(SETTINGS, 0)
    one.ping(0)
    one.take(Pong(1, 7), 5)
    assert one.ping(999) is None
    assert one.ping(1_000) == Ping(2)


def test_who_does_not_answer_is_gone():
    one = Liveness(SETTINGS, 0)
    one.ping(0)
    assert one.due_ms == 3_000
    assert one.end(2_999) is None
    assert one.end(3_000) is SessionEnd.SILENT


def test_who_looks_late_looks_once_more_as_he_may_not_have_read_what_came():
    one = Liveness(SETTINGS, 0)
    one.ping(0)
    assert one.end(4_280) is None
    assert one.due_ms == 5_560
    one.take(Pong(1, 7), 4_281)
    assert one.end(5_560) is None
    one.ping(6_000)
    assert one.end(9_001) is None
    assert one.end(9_001) is None
    assert one.end(9_002) is SessionEnd.SILENT


def test_who_looks_late_again_and_again_gives_up_the_second_time():
    one = Liveness(SETTINGS, 0)
    one.ping(0)
    assert one.end(5_000) is None
    assert one.due_ms == 7_000
    assert one.end(9_000) is SessionEnd.SILENT


def test_who_answers_and_does_not_move_is_stuck():
    one = Liveness(SETTINGS, 0)
    for number, (now_ms, progress) in enumerate([(0, 7), (1_000, 8), (2_000, 8)], 1):
        assert one.ping(now_ms) == Ping(number)
        one.take(Pong(number, progress), now_ms)
        assert one.end(now_ms) is None
    one.ping(3_000)
    one.take(Pong(4, 8), 3_000)
    assert one.end(3_000) is SessionEnd.STALLED


def test_what_is_read_late_says_nothing_of_what_was_meanwhile():
    one = Liveness(SETTINGS, 0)
    one.ping(0)
    one.take(Pong(1, 7), 0)
    one.ping(1_000)
    one.take(Pong(2, 7), 60_000)
    assert one.end(60_000) is None, "it was so after one second, and nobody knows how it is now"
    one.ping(60_000)
    one.take(Pong(3, 7), 60_001)
    assert one.end(60_001) is SessionEnd.STALLED


def test_a_controller_that_stood_still_itself_asks_before_it_judges():
    one = Liveness(SETTINGS, 0)
    one.ping(0)
    one.take(Pong(1, 7), 0)
    assert one.end(60_000) is None
    one.ping(60_000)
    one.take(Pong(2, 8), 60_001)
    assert one.end(60_001) is None


def test_answers_that_do_not_fit():
    one = Liveness(SETTINGS, 0)
    assert one.objection(Pong(1, 1)) == "ping 1 is not under way"
    one.ping(0)
    assert one.objection(Pong(2, 1)) == "ping 2 is not under way"
    assert one.objection(Pong(1, 1)) is None
    one.take(Pong(1, 1), 0)
    assert one.objection(Pong(1, 1)) == "ping 1 is not under way"
    one.ping(1_000)
    assert one.objection(Pong(2, 0)) == "progress goes back"
