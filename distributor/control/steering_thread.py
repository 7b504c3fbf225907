"""A thread that looks at the targets of a link, and obeys what it is told about them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, Queue
from typing import TYPE_CHECKING

from dafka.errors import DafkaError
from dafka.query.client import LOOK_TIMEOUT_MS
from distributor.control.steering import ClusterStores, Steering
from distributor.link.target import TargetSettings
from distributor.survey import ASKED_AT_ONCE_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributor.control.steering import SteeredNode
    from distributor.link.target import TargetEvent
    from topology.model import Topology
    from topology.plan import Link

COMMANDS_MAX = 64
"""Commands that wait to be obeyed; more are refused by being lost, and can be given again."""


class SteeringThread:
    """The steering of one link, running.

    Args:
        topology: Where the clusters are declared.
        link: Which arrow of the plan.
        node: What is steered. What it raises when it is to be opened anew ends this.
        probe_interval_ms: How often to look at the targets.
    """

    def __init__(
        self, topology: Topology, link: Link, node: SteeredNode, probe_interval_ms: int
    ) -> None:
        self.failure: DafkaError | None = None
        """Why it has ended by itself."""
        self._commands: Queue[Callable[[], None]] = Queue(COMMANDS_MAX)
        at_once = min(len(link.targets), ASKED_AT_ONCE_MAX)
        self._pool = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="dafka-probe")
        self._stores = ClusterStores(topology, link)
        settings = TargetSettings(
            failover_after_ms=topology.links.failover_after_ms,
            failback=topology.links.failback,
        )
        self.steering = Steering(
            link,
            settings,
            node,
            self._stores,
            probe=self._pool.map,
            probe_interval_ms=probe_interval_ms,
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="dafka-steering", daemon=True)
        self._thread.start()

    def tell(self, event: TargetEvent) -> None:
        """Pass a command on; it is obeyed a moment later."""
        self.call(partial(self.steering.handle, event))

    def call(self, command: Callable[[], None]) -> None:
        """Have something done by this thread, a moment later."""
        if not self._commands.full():
            self._commands.put_nowait(command)

    @property
    def closed(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._stopping.is_set()

    def close(self) -> None:
        """End."""
        self._stopping.set()
        self._thread.join(LOOK_TIMEOUT_MS / 1_000)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _main(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        except DafkaError as error:
            # The process ends with it and is started again.
            self.failure = error
        finally:
            self._stores.close()

    def _turn(self) -> None:
        try:
            command = self._commands.get(timeout=self.steering.wait_ms() / 1_000)
        except Empty:
            pass
        else:
            command()
        if not self._stopping.is_set():
            self.steering.look()
