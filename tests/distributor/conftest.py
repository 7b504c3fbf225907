"""Topologies whose stores are in this process, filled by hand."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from dafka.cluster import Cluster
from dafka.model import Slots
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.schemas.entries import Schema
from dafka.storage.kept_slots import KeptSlots
from dafka.storage.lmdb_log import Durability, LmdbLog
from distributor.testing.registries import RegistryWorld
from tests.support import batches
from topology import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import Batch, Partition


@pytest.fixture
def roomy_disk(monkeypatch):
    """Half of every disk is free, whatever the machine's own has."""
    usage = SimpleNamespace(total=100e9, free=50e9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    return usage


@pytest.fixture
def make_batch():
    return batches.make_batch


class Pair:
    """Two clusters under one branch of level 1; the stores of the first may share the slots."""

    def __init__(
        self,
        directory: Path,
        free_ports,
        reopened,
        topics: str = "",
        host: str = "127.0.0.1",
        shares: Sequence[Slots] = (),
    ):
        self._reopened = reopened
        first = free_ports(6 + len(shares))
        self.file = directory / "topology.yaml"
        lines = ["version: 1", "name: pair", "clusters:"]
        for number, port in ((1, first), (2, first + 3)):
            data = directory / str(number)
            lines += [
                f"  - name: c{number}",
                f"    id: {number}",
                f"    host: '{host}'",
                f"    towers: ['tcp://{host}:{port}']",
                "    stores:",
            ]
            if number == 1 and shares:
                for query, share in enumerate(shares, first + 6):
                    place = f"query: 'tcp://{host}:{query}', data: '{data}-{query}'"
                    lines.append(f"      - {{{place}, slots: '{share}'}}")
            else:
                lines.append(f"      - {{query: 'tcp://{host}:{port + 2}', data: '{data}'}}")
        lines += ["tree: {level: 1, children: [c1, c2]}", topics]
        self.file.write_text("\n".join(lines))
        self.topology = load(self.file)

    @property
    def queries(self):
        """The query ports of the clusters."""
        return [cluster.stores[0].query for cluster in self.topology.clusters]

    def fill(self, number: int, *batches: Batch, stores: Sequence[int] | None = None):
        """Append to a cluster's logs, each what it keeps, while its stores do not run.

        To those of some stores only, if it is said which.
        """
        for place, (slots, log) in enumerate(self._logs(number)):
            if stores is None or place in stores:
                log.append([batch for batch in batches if slots.keeps(*batch.partition)])

    def trim(self, number: int, trims: dict[Partition, int]):
        """Drop the beginnings of partitions, as retention does, while the stores do not run."""
        for slots, log in self._logs(number):
            log.append([], trims={one: at for one, at in trims.items() if slots.keeps(*one)})

    def forget(self, number: int, partitions: list[Partition]):
        """Let the stores forget partitions of which nothing is kept, while they do not run."""
        for slots, log in self._logs(number):
            log.append([], forgets=[one for one in partitions if slots.keeps(*one)])

    def _logs(self, number: int):
        for spec in self.topology.clusters[number - 1].stores:
            slots = Slots.of(spec.slots)
            with closing(LmdbLog(spec.data, durability=Durability.OS)) as log:
                KeptSlots(log, slots)
                yield slots, log

    @contextmanager
    def running(self, *numbers: int, away: Sequence[int] = ()):
        """Towers and stores of these clusters, or both, without some stores of the first."""
        with ExitStack() as stack:
            for number in numbers or (1, 2):
                cluster = self.topology.clusters[number - 1]
                place = Cluster.declared(cluster)
                stack.enter_context(self._reopened(partial(Tower, place)))
                for index, spec in enumerate(cluster.stores):
                    if number == 1 and index in away:
                        continue
                    told = {"query": spec.query, "slots": Slots.of(spec.slots)}
                    open_store = partial(Store, Path(spec.data), place, **told)
                    opened = self._reopened(partial(open_store, durability=Durability.OS))
                    stack.enter_context(opened)
            yield self


@pytest.fixture
def make_pair(tmp_path, free_ports, reopened):
    """A function that makes a pair of clusters, with further lines for its file."""
    return partial(Pair, tmp_path, free_ports, reopened)


@pytest.fixture
def pair(make_pair, request):
    """Two clusters, not running yet; the first with the shares that a test is parametrized by."""
    return make_pair(shares=getattr(request, "param", ()))


@pytest.fixture
def world():
    """Three registries that spell subjects differently, their distributors, and no network."""
    fields = {"tenant": "acme", "instance": "prod"}
    world = RegistryWorld(["{tenant}-{instance}-{topic}", "{tenant}/{topic}", "{topic}"], fields)
    world.rest()
    return world


@pytest.fixture
def avro():
    """A function that makes a schema of a type."""
    return lambda name: Schema("AVRO", f'"{name}"')
