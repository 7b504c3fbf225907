from __future__ import annotations

import os
import signal
import threading

import pytest

from dafka.node.running import run_until_told, stop_event

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Runs:
    """Something that ends when it is asked for the nth time, or fails then."""

    def __init__(self, times, failure=None):
        self.left = times
        self._failure = failure

    def join(self, timeout):
        assert timeout == 0
        self.left -= 1
        if self.left > 0:
            return False
        if self._failure:
            raise self._failure
        return True


@pytest.fixture(autouse=True)
def handlers():
    """The signal handlers are as before afterwards."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_sets_the_event(number):
    told = stop_event()
    assert not told.is_set()
    os.kill(os.getpid(), number)
    assert told.wait(5)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_wait(number):
    class Signals(Runs):
        def join(self, timeout):
            os.kill(os.getpid(), number)
            return False

    run_until_told(Signals(1))


@pytest.mark.slow
def test_the_wait_ends_when_one_of_several_has_ended():
    ends, goes_on = Runs(1), Runs(1_000)
    run_until_told(goes_on, ends)
    assert (goes_on.left, ends.left) == (999, 0)


@pytest.mark.slow
def test_what_ended_one_is_raised():
    with pytest.raises(RuntimeError, match="reason"):
        run_until_told(Runs(1, RuntimeError("reason")))


def test_signals_can_only_be_taken_in_the_main_thread():
    failures = []

    def work():
        try:
            stop_event()
        except ValueError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures
