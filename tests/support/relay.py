"""A way to a port of this machine that can become a black hole: it stays, and nothing arrives."""

from __future__ import annotations

import socket
import threading


class Relay:
    """Listens at a port of its own and carries what comes, until it does not."""

    def __init__(self, port):
        self._behind = port
        self._going = threading.Event()
        self._going.set()
        self._sockets = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow(self):
        """Let nothing arrive any more, in either direction."""
        self._going.clear()

    def close(self):
        self._going.set()
        for one in (self._listener, *self._sockets):
            one.close()

    def _accept(self):
        while True:
            try:
                here, _ = self._listener.accept()
                there = socket.create_connection(("127.0.0.1", self._behind))
            except OSError:
                return
            self._sockets += [here, there]
            for ends in ((here, there), (there, here)):
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, sender, receiver):
        try:
            while octets := sender.recv(65_536):
                self._going.wait()
                receiver.sendall(octets)
            receiver.shutdown(socket.SHUT_WR)
        except OSError:
            return
