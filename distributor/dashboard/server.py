"""Serves the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dafka.process.web import WebServer, bind
from dafka.process.web_access import load_web_access
from distributor.dashboard.pages import LOOK_INTERVAL_S, Pages
from distributor.dashboard.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.plan import Plan
    from topology.processes import Process

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Names a page on this machine is asked for by. Another that leads here is somebody's trick."""


class Dashboard(WebServer):
    """The page, served by a thread of its own.

    Args:
        plan: Of the topology to show.
        processes: Of the topology.
        listen: `host:port`, an IPv6 host in brackets; port 0 takes a free one.
        look_interval_s: How often to look, in seconds, while somebody watches.

    Raises:
        MisuseError: It is not one, the port is taken, or the host is not one of this machine's.
    """

    def __init__(
        self,
        plan: Plan,
        processes: Sequence[Process],
        listen: str,
        look_interval_s: float = LOOK_INTERVAL_S,
    ) -> None:
        web = plan.topology.web
        access = None if web is None else load_web_access(Path(web.directory) / web.access)
        bound, self.url = bind(listen, "the page", access)
        host = urlsplit(self.url).netloc.rpartition(":")[0]
        hosts = LOCAL_HOSTS if host in LOCAL_HOSTS else ("*",)
        pages = Pages(plan, Watcher(plan, processes), look_interval_s=look_interval_s)
        super().__init__(pages.application(hosts), bound, access, lambda _: "dashboard")
