from __future__ import annotations

import pytest

from benchmarks.harness import Parts, Results, Worker, until_told


def test_a_part_that_fails_costs_the_others_nothing_and_is_told_at_the_end():
    parts, results = Parts(), Results()
    for name in ("first", "second", "third"):
        with parts.part(name):
            if name == "second":
                raise TimeoutError("stuck")
            results.add(name, "ms", 1.0)
    with pytest.raises(ExceptionGroup) as raised:
        parts.end()
    assert [series.name for series in results] == ["first", "third"]
    (failure,) = raised.value.exceptions
    assert str(failure) == "stuck"
    assert failure.__notes__ == ["second"]


def test_where_nothing_fails_nothing_is_told():
    parts = Parts()
    with parts.part("only"):
        pass
    parts.end()


def echo(pipe):
    pipe.send("up")
    while until_told(pipe):
        pipe.send("heard")


@pytest.mark.slow
def test_who_is_paused_answers_once_it_may_go_on():
    worker = Worker(echo)
    worker.hear()
    worker.pause()
    worker.tell("hello")
    with pytest.raises(TimeoutError):
        worker.hear(0.2)
    worker.go_on()
    assert worker.hear() == "heard"
    worker.end()
