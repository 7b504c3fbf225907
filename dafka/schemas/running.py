"""A registry process, as `/health` and `/ready` see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dafka.node.web import WebServer
    from dafka.schemas.service import Service


class RunningRegistry:
    """A service behind its web server.

    Args:
        service: What answers.
        server: What lets clients in.
    """

    def __init__(self, service: Service, server: WebServer) -> None:
        self._service = service
        self._server = server

    def join(self, timeout: float) -> bool:
        """Wait for it to end by itself; True if it has."""
        return self._server.join(timeout)

    def unwell(self) -> str:
        """Why it does not work, for people; empty if it does."""
        return "the registry no longer serves" if self._server.join(0) else ""

    def unready(self) -> str:
        """Why it is of no use yet, for people; empty if it is."""
        return self._service.trouble
