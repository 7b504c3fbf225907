"""A whole gateway: the node of the cluster, and the port for Kafka clients in front of it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.gateway.handlers import Handlers
from dafka.gateway.server import GatewayServer
from dafka.node.gateway import GatewayNode
from dafka.process.clock import now_ms

if TYPE_CHECKING:
    from typing import Self

    from dafka.cluster import Cluster
    from dafka.gateway.users import KafkaUsers

log = logging.getLogger(__name__)


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
        users: KafkaUsers | None = None,
    ) -> None:
        self._node = GatewayNode(cluster, *(reached_at or (host, port)))
        self._server = GatewayServer(Handlers(self._node, now_ms), users=users)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name="dafka-kafka", daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._server.start(host, port), self._loop).result()
        except MisuseError:
            self._end()
            raise
        except OSError as error:
            self._end()
            raise MisuseError(
                f"cannot listen for Kafka clients at {host}:{port}: {error}"
            ) from error

    @property
    def node(self) -> GatewayNode:
        """What is behind it."""
        return self._node

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        return self._node.join(timeout)

    def unwell(self) -> str:
        """See `LongRunning`."""
        return self._node.unwell() or ("" if self._thread.is_alive() else "gateway has ended")

    def unready(self) -> str:
        """See `LongRunning`."""
        return self._node.unready()

    def close(self) -> None:
        """Take no more requests, answer those that are under way, leave the cluster."""
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result()
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self) -> None:
        self._node.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
