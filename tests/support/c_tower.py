"""A tower that behaves as that of the C implementation does."""

from __future__ import annotations

import threading

import zmq


class Tower(threading.Thread):
    """Passes beacons on; the host is the connection's where the beacon has none."""

    def __init__(self, inbound, outbound):
        super().__init__(daemon=True)
        self._inbound, self._outbound = inbound, outbound
        self._stopping = threading.Event()

    def stop(self):
        self._stopping.set()
        self.join(60)
        assert not self.is_alive()

    def run(self):
        context = zmq.Context.instance()
        incoming, outgoing = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
        outgoing.set(zmq.XPUB_WELCOME_MSG, b"W")
        incoming.bind(self._inbound)
        outgoing.bind(self._outbound)
        incoming.send(b"\1B")
        poller = zmq.Poller()
        poller.register(incoming, zmq.POLLIN)
        poller.register(outgoing, zmq.POLLIN)
        while not self._stopping.is_set():
            ready = dict(poller.poll(20))
            if outgoing in ready:
                frame = outgoing.recv()
                if frame[1:2] != b"W":
                    incoming.send(frame)
            if incoming in ready:
                frames = incoming.recv_multipart(copy=False)
                letter, uuid, host, port = (frame.bytes for frame in frames)
                host = host or frames[0].get("Peer-Address").encode()
                outgoing.send_multipart([letter, uuid, b"tcp://" + host + b":" + port])
        incoming.close(0)
        outgoing.close(0)
