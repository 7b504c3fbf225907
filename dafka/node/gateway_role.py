"""The role of a gateway: its machine, in the turns of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dafka.gateway.effects import Looked
from dafka.groups.events import Answered, Ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.gateway.effects import GatewayEvent
    from dafka.gateway.machine import GatewayMachine
    from dafka.node.group_client import StoreLines
    from dafka.protocol.events import Event
    from dafka.transport.sockets import Pollable

    NodeEvent = Event | GatewayEvent | Answered | Looked


class GatewayRole:
    """The shell of a gateway's machine.

    Args:
        machine: The gateway.
        lines: To the stores that agree on the group's members.
        perform: Does what neither the network nor the group does.
    """

    name = "gateway"

    def __init__(
        self, machine: GatewayMachine, lines: StoreLines, perform: Callable[[object], None]
    ) -> None:
        self._machine = machine
        self._lines = lines
        self._perform = perform

    def handle(self, side: None, event: NodeEvent, now_ms: int) -> Iterable[tuple[None, object]]:
        """See `Role`."""
        if isinstance(event, Looked):
            return [(side, event)]  # what the look has found is taken in
        return [(side, effect) for effect in self._machine.handle(event, now_ms)]

    def wakeup_ms(self) -> int | None:
        """See `Role`."""
        return self._machine.wakeup_ms()

    def perform(self, _side: None, effect: object) -> None:
        """See `Role`."""
        if isinstance(effect, Ask):
            self._lines.ask(effect)
        else:
            self._perform(effect)

    def pollable(self) -> Mapping[Pollable, Callable[[], Iterable[tuple[None, NodeEvent]]]]:
        """See `Role`."""
        return cast(
            "Mapping[Pollable, Callable[[], Iterable[tuple[None, NodeEvent]]]]",
            self._lines.pollable(),
        )

    def close(self) -> None:
        """See `Role`."""
        self._lines.close()
