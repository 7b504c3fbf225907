"""One message over a socket: all its frames at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

if TYPE_CHECKING:
    from collections.abc import Sequence

FRAMES_MAX = 4
"""Frames kept of one message. No message has more than three; a fourth makes it malformed."""


def send_frames(socket: zmq.Socket[bytes], frames: Sequence[bytes]) -> None:
    """Send a message."""
    *first, last = frames
    for frame in first:
        socket.send(frame, zmq.SNDMORE)
    socket.send(last)


def receive_frames(socket: zmq.Socket[bytes]) -> list[bytes] | None:
    """Take one whole message off a socket, or None if there is none.

    All its frames come at once, and at most `FRAMES_MAX` are kept; ZeroMQ had them all in memory.
    """
    # Not `recv_multipart`: it asks the socket after each frame whether there are more, which costs
    # as much as the frame. One that is not copied knows by itself.
    frames: list[bytes] = []
    try:
        while True:
            frame = socket.recv(zmq.NOBLOCK, copy=False)
            if len(frames) < FRAMES_MAX:
                frames.append(frame.bytes)
            if not frame.more:
                return frames
    except zmq.Again:
        return None
