from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from dafka.process.signals import (
    end_within,
    interrupt_when_told,
    reload_event,
    run_until_told,
    stop_event,
)

SIGNALS = (signal.SIGINT, signal.SIGTERM)
HANDLED = (*SIGNALS, signal.SIGHUP)


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
    before = {number: signal.getsignal(number) for number in HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_sets_the_event(number):
    told = stop_event()
    assert not told.is_set()
    os.kill(os.getpid(), number)
    assert told.wait(60)


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_once(number):
    interrupt_when_told()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    for again in (signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getpid(), again)


def test_a_signal_that_was_ignored_stays_so():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupt_when_told()
    os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


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


STUCK = """
import sys, time
from dafka.process.logs import set_up_logs
from dafka.process.signals import end_within
set_up_logs("info")
timer = end_within(int(sys.argv[1]))
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.slow
def test_a_process_that_does_not_end_in_time_is_ended():
    done = subprocess.run(
        [sys.executable, "-c", STUCK, "100", "100"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "did not stop in time, ending now shutdown_ms=100" in done.stderr


@pytest.mark.slow
def test_a_process_that_ends_in_time_does_not_wait_for_the_rest_of_it():
    done = subprocess.run([sys.executable, "-c", STUCK, "600000", "0"], timeout=60, check=False)
    assert done.returncode == 0


def test_the_end_can_be_called_off():
    timer = end_within(60_000)
    timer.cancel()
    timer.join(60)
    assert not timer.is_alive()


def test_a_hangup_asks_for_the_file_to_be_read_again():
    told, reload = stop_event(), reload_event()
    os.kill(os.getpid(), signal.SIGHUP)
    assert reload.wait(60)
    assert not told.is_set()
