"""The schema distributor in a process: a thread that takes a step now and then."""

from __future__ import annotations

from contextlib import ExitStack
from threading import Event, Thread
from typing import TYPE_CHECKING

from dafka.node.loop import NodeFailedError
from dafka.process.clock import now_ms
from dafka.process.threads import wait_for_end
from distributor.schemas.distributor import Part, SchemaDistributor
from distributor.schemas.meter import SchemaMeter
from distributor.schemas.site import site_in, sites_of

if TYPE_CHECKING:
    from topology.model import Topology

STEP_S = 0.5
"""Between two looks at the logs: a registration is everywhere about so much later."""


class SchemaNode:
    """One cluster's schema distributor, running.

    Args:
        topology: Where the registries are declared.
        cluster: Whose.

    Raises:
        PlanError: The cluster has no registry.
    """

    def __init__(self, topology: Topology, cluster: str) -> None:
        self._sites = sites_of(topology)
        own = site_in(self._sites, cluster)
        self._meter = SchemaMeter(cluster)
        self._distributor = SchemaDistributor(
            own,
            [site for site in self._sites if site is not own],
            first=topology.primary == cluster,
            meter=self._meter,
        )
        self._stopping = Event()
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, name="schemas", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        self._thread.join(timeout)
        if self._failure is not None:
            raise NodeFailedError(f"the schema distributor has failed: {self._failure}")
        return not self._thread.is_alive()

    def unwell(self) -> str:
        """See `LongRunning`."""
        if self._failure is not None:
            return f"the schema distributor has failed: {self._failure}"
        state = self._distributor.state
        return state.why if state.part is Part.CONFLICT else ""

    def unready(self) -> str:
        """What it waits for, for people; empty if nothing."""
        state = self._distributor.state
        if state.part is Part.STARTING:
            return "starting"
        return state.why if state.part is Part.WAITING else ""

    def close(self) -> None:
        """Stop after the step under way. Nothing has to be saved: the logs say what is where."""
        self._stopping.set()
        wait_for_end(self._thread, "schemas, between stores that answer slowly")

    def _run(self) -> None:
        with ExitStack() as opened:
            opened.callback(self._meter.close)
            for site in self._sites:
                opened.callback(site.close)
            try:
                while not self._stopping.is_set():
                    self._distributor.step(now_ms())
                    self._stopping.wait(STEP_S)
            except BaseException as error:
                self._failure = error
                raise
