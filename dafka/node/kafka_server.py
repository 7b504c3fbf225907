"""A whole gateway: the node of the cluster, and the port for Kafka clients in front of it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from dafka.errors import MisuseError
from dafka.gateway.coordinator import COORDINATOR_SETTINGS
from dafka.gateway.coordinators import Coordinators
from dafka.gateway.handlers import Handlers
from dafka.gateway.quotas import Quotas
from dafka.gateway.server import GatewayServer
from dafka.gateway.topic_retention import TopicRetention
from dafka.node.gateway import GatewayNode
from dafka.node.gateway_observer import GatewayObserver
from dafka.node.gateway_pages import GatewayPages
from dafka.process import metrics
from dafka.process.clock import now_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future
    from typing import Self

    from dafka.cluster import Cluster
    from dafka.gateway.broker import ErrorCode
    from dafka.gateway.wire import Api
    from dafka.node.users_file import UsersFile

T = TypeVar("T")

log = logging.getLogger(__name__)

JOINED_LOOK_S = 0.05
"""Between two looks whether the node has joined, while it has not."""


class KafkaServer:
    """Serves Kafka clients. To be closed by the thread that made it.

    Args:
        cluster: Which; with all its stores.
        host: Where it listens.
        port: Likewise; 0 is no choice, for clients are told it.
        reached_at: Where clients reach it, if not there.
        users: Who may log in; None: everybody may do everything.

    Raises:
        MisuseError: Nobody can listen there, or the cluster cannot be entered as given.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: str,
        port: int,
        reached_at: tuple[str, int] | None = None,
        users: UsersFile | None = None,
    ) -> None:
        self._node = GatewayNode(cluster, *(reached_at or (host, port)))
        groups = Coordinators(self._node, now_ms, COORDINATOR_SETTINGS)
        quotas = Quotas(now_ms, _count_throttled)
        handlers = Handlers(
            self._node, now_ms, groups=groups, refused=_count_refused, quotas=quotas
        )
        self._server = GatewayServer(handlers, users=None if users is None else users.users)
        self._observer = GatewayObserver(self._node, groups)
        self._loop = asyncio.new_event_loop()
        pages = GatewayPages(self._node, groups, self._server, self._observer)
        self.pages = pages.served(self._loop)
        """What people are shown, by path."""
        self._thread = threading.Thread(target=self._main, name="dafka-kafka", daemon=True)
        self._thread.start()
        try:
            self._call(self._server.start(host, port)).result()
        except MisuseError:
            self._end()
            raise
        except OSError as error:
            self._end()
            raise MisuseError(
                f"cannot listen for Kafka clients at {host}:{port}: {error}"
            ) from error
        self._opening = self._call(self._open())
        self._observing = self._call(self._observer.run())
        self._retaining = self._call(TopicRetention(self._node, wall_ms).run())
        self._users = users
        self._watching = None if users is None else self._call(users.run(self._server.use))

    @property
    def node(self) -> GatewayNode:
        """What is behind it."""
        return self._node

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        return self._node.join(timeout)

    def unwell(self) -> str:
        """See `LongRunning`."""
        if not self._thread.is_alive():
            return "gateway has ended"
        if self._is_open and self._opening.exception():
            return f"Kafka clients cannot come: {self._opening.exception()}"
        if self._observing.done() and not self._observing.cancelled():
            return f"gateway is not looked at: {self._observing.exception()}"
        if self._retaining.done() and not self._retaining.cancelled():
            return f"nobody looks at the age of records: {self._retaining.exception()}"
        watching = self._watching
        if watching is not None and watching.done() and not watching.cancelled():
            return f"users file is not looked at: {watching.exception()}"
        return self._node.unwell() or self._observer.unwell()

    def unready(self) -> str:
        """See `LongRunning`."""
        late = "" if self._is_open else "no clients yet: it has not joined the cluster's gateways"
        return self._node.unready() or late or ("" if self._users is None else self._users.problem)

    def close(self) -> None:
        """Take no more requests, answer those that are under way, leave the cluster."""
        self._opening.cancel()
        self._observing.cancel()
        self._retaining.cancel()
        if self._watching is not None:
            self._watching.cancel()
        self._call(self._server.stop()).result()
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _is_open(self) -> bool:
        """Whether it is over that nobody is let in."""
        return self._opening.done() and not self._opening.cancelled()

    async def _open(self) -> None:
        """Let clients in once they can be told who owns what.

        Before that they are better served by another gateway: some of them take what is not known
        yet for an answer.
        """
        while not self._node.joined:
            await asyncio.sleep(JOINED_LOOK_S)
        await self._server.listen()
        log.info("gateway lets Kafka clients in")

    def _call(self, what: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin something in the front's loop."""
        return asyncio.run_coroutine_threadsafe(what, self._loop)

    def _end(self) -> None:
        self._node.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._node.meter.close()

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


def _count_refused(api: Api, error: ErrorCode) -> None:
    metrics.KAFKA_ERRORS.labels(api.name.lower(), error.name.lower()).inc()


def _count_throttled(user: str, quota: str, owes_ms: int) -> None:
    metrics.KAFKA_THROTTLED.labels(user, quota).inc(owes_ms / 1_000)
