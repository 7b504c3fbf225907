from __future__ import annotations

import logging
import threading

from dafka.process.threads import wait_for_end


def test_a_thread_that_ends_is_waited_for_in_silence(caplog):
    thread = threading.Thread(target=lambda: None, daemon=True)
    thread.start()
    assert wait_for_end(thread, "nothing")
    assert not caplog.records


def test_a_thread_that_does_not_end_is_left_alone_and_named(caplog):
    told = threading.Event()
    thread = threading.Thread(target=told.wait, name="dafka-busy", daemon=True)
    thread.start()
    with caplog.at_level(logging.WARNING):
        assert not wait_for_end(thread, "a store that says nothing", timeout_s=0.01)
    told.set()
    thread.join(60)
    (record,) = caplog.records
    assert record.getMessage().startswith("dafka-busy has not ended")
    assert "a store that says nothing" in record.getMessage()
