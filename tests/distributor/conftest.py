"""Topologies whose stores are in this process, filled by hand."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from dafka.cluster import Cluster
from dafka.node.store import Store
from dafka.node.tower import Tower
from dafka.schemas.entries import Schema
from dafka.storage.lmdb_log import Durability, LmdbLog
from distributor.testing.registries import RegistryWorld
from tests.support import batches
from topology import load

if TYPE_CHECKING:
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
    """Two clusters under one branch of level 1."""

    def __init__(
        self, directory: Path, free_ports, reopened, topics: str = "", host: str = "127.0.0.1"
    ):
        self._reopened = reopened
        first = free_ports(6)
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
                f"      - {{query: 'tcp://{host}:{port + 2}', data: '{data}'}}",
            ]
        lines += ["tree: {level: 1, children: [c1, c2]}", topics]
        self.file.write_text("\n".join(lines))
        self.topology = load(self.file)

    @property
    def queries(self):
        """The query ports of the clusters."""
        return [cluster.stores[0].query for cluster in self.topology.clusters]

    def fill(self, number: int, *batches: Batch):
        """Append to a cluster's log while its store does not run."""
        log = LmdbLog(self.topology.clusters[number - 1].stores[0].data, durability=Durability.OS)
        log.append(batches)
        log.close()

    def trim(self, number: int, trims: dict[Partition, int]):
        """Drop the beginnings of partitions, as retention does, while the store does not run."""
        self._change(number, trims=trims)

    def forget(self, number: int, partitions: list[Partition]):
        """Let the store forget partitions of which nothing is kept, while it does not run."""
        self._change(number, forgets=partitions)

    def _change(self, number: int, **what):
        log = LmdbLog(self.topology.clusters[number - 1].stores[0].data, durability=Durability.OS)
        log.append([], **what)
        log.close()

    @contextmanager
    def running(self, *numbers: int):
        """Towers and stores of these clusters, both if none is named."""
        with ExitStack() as stack:
            for number in numbers or (1, 2):
                cluster = self.topology.clusters[number - 1]
                (spec,) = cluster.stores
                place = Cluster.declared(cluster)
                stack.enter_context(self._reopened(partial(Tower, place)))
                open_store = partial(Store, Path(spec.data), place, query=spec.query)
                stack.enter_context(self._reopened(partial(open_store, durability=Durability.OS)))
            yield self


@pytest.fixture
def make_pair(tmp_path, free_ports, reopened):
    """A function that makes a pair of clusters, with further lines for its file."""
    return partial(Pair, tmp_path, free_ports, reopened)


@pytest.fixture
def pair(make_pair):
    """Two clusters, not running yet."""
    return make_pair()


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
