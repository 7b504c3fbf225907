"""The web application: what the page asks for. The only importer of starlette here."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from dafka.errors import MisuseError
from dafka.groups.commit import checked_group
from dafka.model import Partition
from distributor.dashboard import catalogue
from distributor.dashboard.catalogue import Schemas, preview
from distributor.dashboard.documents import DOCUMENTS, html
from distributor.dashboard.watcher import Watcher, trace
from distributor.survey import Copy, furthest, look_up, survey
from topology.copyflags import format_flags
from topology.model import ClusterName, branches
from topology.spread import spread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from distributor.dashboard.documents import WebPage
    from distributor.survey import Holding
    from topology.plan import Plan

LOOK_INTERVAL_S = 2.0
"""From the end of one look to the begin of the next; a look that took long waits longer."""

VIEWERS_MAX = 64
"""Pages that are kept up to date at once: each holds a connection. One more ends the oldest."""

LIST_S = 2.0
"""What clusters hold is as good as new for so long: they are asked for all they have."""

LOOK_UPS_MAX = 4
"""Records, topics and groups that are looked up at once, each on every cluster."""

PARTITIONS_SHOWN_MAX = 1_000
"""What the page offers to choose from; any other can be typed."""

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Nothing from anywhere else, and nothing that a topic's name could turn into a program."""


class Pages:
    """The page's questions, answered.

    Args:
        plan: Of the topology that is shown.
        watcher: Its observer.
        look_interval_s: From the end of one look to the begin of the next.
        list_s: How long what clusters hold is as good as new.
    """

    def __init__(
        self,
        plan: Plan,
        watcher: Watcher,
        *,
        look_interval_s: float = LOOK_INTERVAL_S,
        list_s: float = LIST_S,
    ) -> None:
        self._look_interval_s = look_interval_s
        self._list_s = list_s
        self._plan = plan
        self._watcher = watcher
        self._width = max((branch.level for branch in branches(plan.topology.tree)), default=1)
        self._streams: dict[object, None] = {}
        """Pages that are kept up to date, the oldest first."""
        self._listing = asyncio.Lock()
        self._listed: tuple[float, list[Holding]] | None = None
        """When all clusters were asked last what they hold, and that."""
        self._schemas = Schemas(plan.topology)
        self._look_ups = asyncio.Semaphore(LOOK_UPS_MAX)
        self._news = asyncio.Condition()
        self._watched = asyncio.Event()
        self._latest = ""

    def application(self, hosts: Sequence[str]) -> Starlette:
        """Return the application; it answers to these host names only, `*` being all."""
        return Starlette(
            routes=[
                Route("/api/events", self.events),
                Route("/api/partitions", self.partitions),
                Route("/api/topics", self.topics),
                Route("/api/topic", self.topic),
                Route("/api/groups", self.groups),
                Route("/api/group", self.group),
                Route("/api/trace", self.trace),
                Route("/api/record", self.record),
                Route("/api/compare", self.compare, methods=["POST"]),
                Route("/", _document(DOCUMENTS[0])),
                *(Route(f"/{document.file}", _document(document)) for document in DOCUMENTS),
                Mount("/", StaticFiles(packages=[("distributor.dashboard", "static")])),
            ],
            middleware=[
                Middleware(_Headers),
                Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)),
            ],
            lifespan=self._lifespan,
        )

    async def events(self, _request: Request) -> Response:
        """Server-sent events: the topology once, then what every look has shown."""
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def partitions(self, _request: Request) -> Response:
        """Partitions of which some cluster has records, the first so many."""
        heads = furthest(holding.heads for holding in await self._holdings())
        chosen = sorted(heads)[:PARTITIONS_SHOWN_MAX]
        rows = [[name.topic, name.address, heads[name]] for name in chosen]
        return _json({"partitions": rows, "more": len(heads) - len(rows)})

    async def topics(self, _request: Request) -> Response:
        """Every topic, the first so many."""
        return _json(catalogue.topics(await self._holdings()))

    async def topic(self, request: Request) -> Response:
        """What each cluster holds of the topic `name`, its newest records at `cluster`, schemas.

        Without `cluster` at the first one that answers.
        """
        topology = self._plan.topology
        name, at = request.query_params.get("name", ""), request.query_params.get("cluster", "")
        if at and at not in {cluster.name for cluster in topology.clusters}:
            return _refusal(400, f"no cluster {at!r}")
        holdings = await self._holdings()
        clusters = catalogue.topic_at(name, holdings)
        if not any(row["partitions"] for row in clusters):
            return _refusal(404, f"no cluster that answers has records of topic {name!r}")
        answering = (holding for holding in holdings if holding.store is not None)
        holding = next((one for one in holdings if one.cluster == at), None) or next(answering)
        spec = topology.cluster(ClusterName(holding.cluster))
        async with self._look_ups:
            newest = await asyncio.to_thread(catalogue.newest, spec, holding, name, self._width)
            schemas = await asyncio.to_thread(self._schemas.of_topic, name)
        return _json({"topic": name, "clusters": clusters, "newest": newest, "schemas": schemas})

    async def groups(self, _request: Request) -> Response:
        """Every group of consumers, the first so many."""
        async with self._look_ups:
            return _json(await asyncio.to_thread(catalogue.groups, self._plan.topology))

    async def group(self, request: Request) -> Response:
        """Where the group `name` stands at each cluster, and how far behind it is."""
        try:
            name = checked_group(request.query_params.get("name", ""))
        except MisuseError as error:
            return _refusal(400, str(error))
        async with self._look_ups:
            return _json(await asyncio.to_thread(catalogue.group, self._plan.topology, name))

    async def _holdings(self) -> list[Holding]:
        """What all clusters hold, as of now or a moment ago: it is all that stores list."""
        clock = asyncio.get_running_loop().time
        async with self._listing:  # whoever asks meanwhile gets the same
            if self._listed is None or clock() - self._listed[0] >= self._list_s:
                holdings = await asyncio.to_thread(survey, self._plan.topology)
                self._listed = clock(), holdings
            return self._listed[1]

    async def trace(self, request: Request) -> Response:
        """Where a record published on `from` goes."""
        origin = request.query_params.get("from", "")
        if origin not in {cluster.name for cluster in self._plan.topology.clusters}:
            return _refusal(400, f"no cluster {origin!r}")
        found = trace(spread(self._watcher.plan.everywhere, ClusterName(origin)), self._width)
        return _json({**found, "flags": format_flags(0, self._width)})

    async def record(self, request: Request) -> Response:
        """Every cluster's copy of the record `topic`, `address`, `sequence`."""
        asked = request.query_params
        topic, address = asked.get("topic", ""), asked.get("address", "")
        text = asked.get("sequence", "")
        if not topic or not address or not (text.isascii() and text.isdecimal() and len(text) < 19):
            return _refusal(400, "topic, address and a sequence from 0 on are needed")
        partition = Partition(topic, address)
        async with self._look_ups:
            copies = await asyncio.to_thread(look_up, self._plan.topology, partition, int(text))
        return _json({"copies": [self._copy(copy) for copy in copies]})

    async def compare(self, request: Request) -> Response:
        """Begin a comparison of all clusters."""
        if request.headers.get("x-dashboard") is None:
            # Another site's page can send a form here, but no header of its own.
            return _refusal(403, "not asked for by the dashboard")
        return _json({"started": self._watcher.compare()})

    def _copy(self, copy: Copy) -> dict[str, Any]:
        row: dict[str, Any] = {"cluster": copy.cluster, "error": copy.error}
        if copy.record is not None:
            row |= {
                "flags": format_flags(copy.record.copy_flags, self._width),
                "timestamp_ms": copy.record.timestamp_ms,
                "key": preview(copy.record.key),
                "value": preview(copy.record.value),
            }
        return row

    async def _stream(self) -> AsyncIterator[str]:
        viewer = object()
        self._streams[viewer] = None
        if len(self._streams) > VIEWERS_MAX:
            del self._streams[next(iter(self._streams))]
        self._watched.set()
        try:
            yield _event("topology", json.dumps(self._watcher.topology()))
            sent = ""
            while viewer in self._streams:
                async with self._news:
                    if self._latest == sent:
                        await self._news.wait()
                    sent = self._latest
                yield _event("look", sent)
        finally:
            self._streams.pop(viewer, None)
            if not self._streams:
                self._watched.clear()

    @asynccontextmanager
    async def _lifespan(self, _application: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await asyncio.to_thread(self._schemas.close)

    async def _watch(self) -> None:
        """Look as long as somebody watches."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._watched.wait()
            began = clock()
            latest = json.dumps(await asyncio.to_thread(self._watcher.look))
            async with self._news:
                self._latest = latest
                self._news.notify_all()
            await asyncio.sleep(max(self._look_interval_s, 2 * (clock() - began)))


class _Headers:
    """Adds our headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_OCTETS]
            await send(message)

        await self._app(scope, receive, send_with_headers)


_OCTETS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


def _event(name: str, data: str) -> str:
    """One server-sent event; JSON has no line break outside of text, and none in it."""
    return f"event: {name}\ndata: {data}\n\n"


def _document(document: WebPage) -> Callable[[Request], Response]:
    text = html(document)
    return lambda _request: HTMLResponse(text)


def _json(value: object) -> Response:
    # Topic names may hold what UTF-8 cannot, so all but ASCII is escaped.
    return Response(json.dumps(value), media_type="application/json")


def _refusal(status: int, reason: str) -> Response:
    return Response(json.dumps({"error": reason}), status, media_type="application/json")
