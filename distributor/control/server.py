"""The distributor's side of the control port: one thread that takes commands for its links."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol, assert_never

from dafka.errors import WireError
from dafka.process import metrics
from dafka.query.paging import page
from dafka.transport.curve import checked_binding
from dafka.transport.request import QueryServer
from dafka.wire.primitives import octets_of
from distributor.control import messages
from distributor.control.messages import VERSION, decode_command, encode
from distributor.link.aim import ClusterLost, Pause, Retarget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.model import Partition
    from distributor.link.aim import AimEvent

_LOOK_MS = 200
"""How often to see whether to end."""


class Steered(Protocol):
    """What the port needs of a link."""

    targets: tuple[str, ...]

    def tell(self, event: AimEvent) -> None:
        """Pass a command on; it is obeyed a moment later."""

    def row(self) -> messages.LinkRow:
        """What the link does."""

    def remembered(self, cluster: str) -> tuple[int, Mapping[Partition, int]] | None:
        """What a cluster was last known to hold, and how many milliseconds ago."""


class ControlServer:
    """The control port of one process.

    Args:
        endpoint: `tcp://host:port`; the host must be this machine's loopback, as whoever reaches
            the port is obeyed.
        links: Whom the commands are for.

    Raises:
        MisuseError: The endpoint cannot be bound, or other machines could reach it.
    """

    def __init__(self, endpoint: str, links: Sequence[Steered]) -> None:
        host = endpoint.removeprefix("tcp://").rpartition(":")[0]
        checked_binding(host, None, insecure=False)
        self._server = QueryServer(endpoint, name="control port")
        self.endpoint = self._server.endpoint
        self._links = links
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="dafka-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more commands."""
        self._stopping.set()
        self._thread.join()

    def _serve(self) -> None:
        try:
            while not self._stopping.is_set():
                if not self._server.socket.poll(_LOOK_MS):
                    continue
                self._serve_one()
        finally:
            self._server.close()

    def _serve_one(self) -> None:
        try:
            request = self._server.receive()
        except WireError as error:
            metrics.count_dropped("control", error.reason)
            return
        if request is not None:
            client, command = request
            self._server.reply(client, answer(command, self._links))


def answer(command: bytes, links: Sequence[Steered]) -> bytes:
    """Obey `command` and answer it, whatever it is: a peer cannot make this raise."""
    try:
        return encode(_obey(decode_command(command), links))
    except WireError as error:
        metrics.count_dropped("control", error.reason)
        return encode(messages.Refused(f"{error.reason}: this one speaks version {VERSION}"))


def _obey(command: messages.Command, links: Sequence[Steered]) -> messages.Answer:
    match command:
        case messages.AskLinks():
            return _rows(links)
        case messages.Retarget():
            return _retarget(command.target, links)
        case messages.Pause():
            for link in links:
                link.tell(Pause())
            return _rows(links)
        case messages.DeclareLost():
            known = _remembered(command.cluster, None, links)
            for link in links:
                link.tell(ClusterLost(command.cluster))
            return known
        case messages.Recall():
            return _remembered(command.cluster, command.after, links)
        case _:
            assert_never(command)


def _rows(links: Sequence[Steered]) -> messages.Rows:
    return messages.Rows(tuple(link.row() for link in links))


def _retarget(target: str, links: Sequence[Steered]) -> messages.Answer:
    able = [link for link in links if target in link.targets]
    for link in able:
        link.tell(Retarget(target))
    if able:
        return _rows(links)
    known = ", ".join(name for link in links for name in link.targets)
    return messages.Refused(f"{target!r} is no target here: there are {known}")


def _remembered(
    cluster: str, after: tuple[bytes, bytes] | None, links: Sequence[Steered]
) -> messages.Remembered:
    latest: tuple[int, Mapping[Partition, int]] | None = None
    for link in links:
        found = link.remembered(cluster)
        if found is not None and (latest is None or found[0] < latest[0]):
            latest = found
    if latest is None:
        return messages.Remembered(-1, ())
    age_ms, heads = latest
    rows = [
        (octets_of(topic), octets_of(address), head) for (topic, address), head in heads.items()
    ]
    following = sorted(row for row in rows if after is None or row[:2] > after)
    told, more = page(following, lambda row: len(row[0]) + len(row[1]))
    return messages.Remembered(age_ms, tuple(told), more)
