"""A replica in this process, with flows that only remember, and controllers that connect."""

from __future__ import annotations

import queue
import threading

import grpc

from distributor.control import wire
from distributor.control.messages import CreateInstance, InitializationComplete, Ping, Pong
from distributor.control.wire import END_KEY, EPOCH_KEY
from distributor.link.progress import LinkProgress
from tests.support.control_commands import hello

INSTANCE = CreateInstance("north", 7)


class FakeWork:
    """A link that does what it is told, and remembers it."""

    def __init__(self, flow, permitted):
        self.flow = flow
        self.permitted = permitted
        self.closed = False
        self.failure = None
        self.turned_ms = 2**60
        """It always turns."""
        self.progress = LinkProgress({}, {}, {})

    def permit(self):
        self.permitted = True

    def row(self):
        return None

    def join(self, timeout):
        if self.failure is not None:
            raise self.failure
        return False

    def unwell(self):
        return str(self.failure or "")

    def unready(self):
        return "" if self.permitted else "it may not write"

    def close(self):
        self.closed = True


class Works:
    """Opens flows; those that cannot run say why."""

    def __init__(self):
        self.opened = []
        self.refusal = None

    def __call__(self, flow, *, permitted):
        if self.refusal is not None:
            raise self.refusal
        self.opened.append(FakeWork(flow, permitted))
        return self.opened[-1]

    @property
    def last(self):
        return self.opened[-1]


class Session:
    """A controller's side of one session, as it comes over the network."""

    def __init__(self, channel):
        self._commands = queue.Queue()
        self.responses = []
        self.answered = threading.Condition()
        method = f"/{wire.SERVICE}/{wire.METHOD}"
        call = channel.stream_stream(
            method, request_serializer=bytes, response_deserializer=wire.decode_responses
        )
        self.call = call(iter(self._commands.get, None))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            for responses in self.call:
                with self.answered:
                    self.responses += responses
                    self.answered.notify_all()
        except grpc.RpcError:
            pass

    def tell(self, *commands):
        for octets in wire.encode_commands(commands):
            self._commands.put(octets)

    def tell_octets(self, octets):
        self._commands.put(octets)

    def begin(self, *window, greeting=None):
        """Greet, and say what is wanted."""
        self.tell(greeting or hello(), INSTANCE, *window, InitializationComplete())
        return self

    def wait_for(self, expected, timeout=60):
        """Wait for a response; returns all there are by then."""
        with self.answered:
            assert self.answered.wait_for(lambda: expected in self.responses, timeout), (
                expected,
                self.responses,
            )
            return [*self.responses]

    def pong(self, number):
        """Ping, and wait for the answer."""
        self.tell(Ping(number))
        with self.answered:
            found = lambda: [  # noqa: E731
                one for one in self.responses if isinstance(one, Pong) and one.number == number
            ]
            assert self.answered.wait_for(found, 120), self.responses
            return found()[0]

    def ended(self, timeout=60):
        """Why the replica has ended it: status, word, epoch."""
        self._thread.join(timeout)
        assert not self._thread.is_alive()
        trailing = dict(self.call.trailing_metadata() or ())
        return self.call.code(), trailing.get(END_KEY), trailing.get(EPOCH_KEY)

    def hang_up(self):
        self._commands.put(None)
