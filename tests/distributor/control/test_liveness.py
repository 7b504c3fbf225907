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
    assert one.end(60_001) is None, "flows may have had to wait for as long as this answer"
    one.ping(61_000)
    one.take(Pong(4, 7), 61_001)
    assert one.end(61_001) is SessionEnd.STALLED


def test_where_answers_are_late_flows_may_turn_as_much_later():
    one = Liveness(SETTINGS, 0)
    for number, asked_ms in enumerate((0, 1_100, 2_200, 3_300), 1):
        one.ping(asked_ms)
        one.take(Pong(number, 7), asked_ms + 1_100)
        assert one.end(asked_ms + 1_100) is None
    # A flow's thread that waits for a core no longer than the process to answer turns until then.
    one.ping(4_400)
    one.take(Pong(5, 8), 4_410)
    assert one.end(4_410) is None
    # From there on all is quick, and what stands still is found as soon as ever.
    for number, asked_ms in enumerate((5_400, 6_400), 6):
        one.ping(asked_ms)
        one.take(Pong(number, 8), asked_ms)
        assert one.end(asked_ms) is None
    one.ping(7_400)
    one.take(Pong(8, 8), 7_400)
    assert one.end(7_400) is SessionEnd.STALLED


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
