"""Runs the application: the only importer of uvicorn here."""

from __future__ import annotations

import socket
from threading import Thread
from typing import TYPE_CHECKING

import uvicorn

from dafka.errors import MisuseError
from dafka.model import Endpoint
from distributor.dashboard.pages import Pages
from distributor.dashboard.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from distributor.processes import Process
    from topology.plan import Plan

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Names a page on this machine is asked for by. Another that leads here is somebody's trick."""

_STOP_S = 1
"""How long open pages are waited for; they are told to connect again anyway."""


class Dashboard:
    """The page, served by a thread of its own.

    Args:
        plan: Of the topology to show.
        processes: Of the topology.
        listen: `host:port`, an IPv6 host in brackets; port 0 takes a free one.

    Raises:
        MisuseError: It is not one, the port is taken, or the host is not one of this machine's.
    """

    def __init__(self, plan: Plan, processes: Sequence[Process], listen: str) -> None:
        self._socket, host = _bound(listen)
        port = self._socket.getsockname()[1]
        self.url = f"http://{host}:{port}/"
        hosts = LOCAL_HOSTS if host in LOCAL_HOSTS else ("*",)
        application = Pages(plan, Watcher(plan, processes)).application(hosts)
        config = uvicorn.Config(
            application,
            log_config=None,
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=_STOP_S,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._run, name="dashboard", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for it to end by itself; True if it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def _bound(listen: str) -> tuple[socket.socket, str]:
    host, _, port = listen.rpartition(":")
    try:
        # Port 0 is no endpoint anybody could connect to, but one that can be bound.
        Endpoint.parse(f"tcp://{listen}" if port != "0" else f"tcp://{host}:1")
    except MisuseError as error:
        raise MisuseError(f"cannot serve the page at {listen!r}: expected HOST:PORT") from error
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host.strip("[]"), int(port)))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise MisuseError(f"cannot serve the page at {listen}: {error.strerror}") from error
    return bound, host
