"""Whole messages over real sockets."""

from __future__ import annotations

import pytest
import zmq

from dafka.transport.frames import FRAMES_MAX, receive_frames, send_frames

pytestmark = pytest.mark.net

WAIT_MS = 5_000


@pytest.mark.parametrize("count", [1, 3, 4, 5, 100])
def test_all_frames_of_a_message_are_taken_and_few_are_kept(opened, count):
    one, other = (opened(zmq.Context.instance().socket(zmq.PAIR)) for _ in range(2))
    port = one.bind_to_random_port("tcp://127.0.0.1")
    other.connect(f"tcp://127.0.0.1:{port}")
    send_frames(other, [bytes([number]) for number in range(count)])
    other.send(b"next")
    assert one.poll(WAIT_MS)
    assert receive_frames(one) == [bytes([n]) for n in range(min(count, FRAMES_MAX))]
    assert one.poll(WAIT_MS)
    assert receive_frames(one) == [b"next"]
    assert receive_frames(one) is None
