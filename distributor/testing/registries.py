"""Registries of several clusters, their distributors and an operator, in a world that breaks.

Everything runs as in production, on logs in memory. What the world can do: cut two clusters off
from one another, restart what runs in one, let clients register and delete at any of them, make any
cluster the primary, also by force while the old one goes on.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from dafka.errors import RegistryError
from dafka.schemas.entries import Schema, SchemaKey
from dafka.schemas.schema_log import MemorySchemaLog
from dafka.schemas.service import Service
from distributor.errors import CommandError
from distributor.schemas.difference import diff
from distributor.schemas.distributor import SchemaDistributor
from distributor.schemas.meter import SchemaMeter
from distributor.schemas.promotion import promote
from distributor.schemas.site import Site
from topology.formats import TOPIC, parse_format

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dafka.schemas.entries import SchemaEntry

TOPICS = ("orders", "orders-value", "notes-key")
TYPES = ("int", "long", "string", "bytes", "double", "boolean")
STEPS_TO_REST = 6
"""Rounds of all distributors after which nothing is under way."""


class RegistryWorld:
    """Clusters `c1`, `c2` and so on; `c1` is the first primary.

    Args:
        formats: How each spells its subjects.
        fields: Fields of formats that have one value everywhere.
    """

    def __init__(self, formats: Sequence[str], fields: Mapping[str, str]) -> None:
        self.formats = {f"c{number}": text for number, text in enumerate(formats, 1)}
        self.fields = fields
        self.records: dict[str, list[SchemaEntry]] = {name: [] for name in self.formats}
        self.cuts: set[frozenset[str]] = set()
        self.acknowledged: dict[int, str] = {}
        """What clients were told: by id, the text of the schema."""
        self._logs: dict[tuple[str, str], list[MemorySchemaLog]] = defaultdict(list)
        self._addresses = 0
        self.services: dict[str, Service] = {}
        self.distributors: dict[str, SchemaDistributor] = {}
        for name in self.formats:
            self.restart(name)

    def restart(self, name: str) -> None:
        """Begin anew what runs in a cluster."""
        self.services[name] = Service(self._log(name, name), name, int(name[1:]))
        own, *others = self.sites(name)
        self.distributors[name] = SchemaDistributor(
            own, others, first=name == "c1", meter=SchemaMeter(name)
        )

    def sites(self, viewer: str) -> list[Site]:
        """All registries as they are seen from one cluster, its own first."""
        names = [viewer, *(name for name in self.formats if name != viewer)]
        return [
            Site(
                name,
                int(name[1:]),
                parse_format(self.formats[name]),
                self.fields,
                partial(self._log, viewer, name),
            )
            for name in names
        ]

    def cut(self, one: str, other: str) -> None:
        """Let two clusters no longer reach one another."""
        self.cuts.add(frozenset((one, other)))
        self._connect()

    def split(self, some: Sequence[str]) -> None:
        """Let some no longer reach the others."""
        for one in some:
            for other in self.formats.keys() - set(some):
                self.cut(one, other)

    def heal(self) -> None:
        """Let all reach all."""
        self.cuts.clear()
        self._connect()

    def step(self, name: str) -> None:
        """Let a cluster's distributor look around once."""
        self.distributors[name].step(0)

    def rest(self) -> None:
        """Let all of them look around until nothing is under way."""
        for _ in range(STEPS_TO_REST):
            for name in self.formats:
                self.step(name)

    def register(self, name: str, topic: str, schema: Schema) -> int | None:
        """Register under a topic's subject at a cluster; None if it is refused."""
        values = {"tenant": "acme", "instance": "prod", TOPIC: topic}
        subject = parse_format(self.formats[name]).join(values)
        try:
            answer = self.services[name].decide(
                lambda registry, id_: registry.register(subject, schema, id_)
            )
        except RegistryError:
            return None
        assert isinstance(answer, dict)
        id_ = int(answer["id"])
        assert self.acknowledged.setdefault(id_, schema.text) == schema.text, "one id, two schemas"
        return id_

    def delete(self, name: str, topic: str) -> bool:
        """Delete a topic's subject softly; whether that was done."""
        values = {"tenant": "acme", "instance": "prod", TOPIC: topic}
        subject = parse_format(self.formats[name]).join(values)
        try:
            self.services[name].decide(
                lambda registry, _id: registry.delete_subject(subject, permanent=False)
            )
        except RegistryError:
            return False
        return True

    def promote(self, name: str, *, force: bool = False) -> bool:
        """Make a cluster the primary, as an operator there; whether that was done."""
        try:
            promote(self.sites(name), name, force=force)
        except CommandError:
            return False
        return True

    def check(self) -> None:
        """Assert what must hold at any time: an id means one schema in the whole world."""
        texts = dict(self.acknowledged)
        for records in self.records.values():
            for entry in records:
                if isinstance(entry.key, SchemaKey) and isinstance(entry.value, Schema):
                    text = texts.setdefault(entry.key.id, entry.value.text)
                    assert text == entry.value.text, f"id {entry.key.id} means two schemas"

    def check_at_rest(self) -> None:
        """Assert what must hold once all is healed and copied."""
        self.check()
        sites = self.sites("c1")
        found = diff(sites)
        assert found.equal, found
        assert not found.skipped, found
        for site in sites:
            for id_, text in self.acknowledged.items():
                schema = site.state.schema(id_)
                assert schema is not None, f"{site.name} has lost id {id_}"
                assert schema.text == text

    def _log(self, viewer: str, name: str) -> MemorySchemaLog:
        self._addresses += 1
        log = MemorySchemaLog(self.records[name], f"{viewer}-{self._addresses}")
        self._logs[viewer, name].append(log)
        self._connect()
        return log

    def _connect(self) -> None:
        for ends, logs in self._logs.items():
            for log in logs:
                log.reachable = frozenset(ends) not in self.cuts


def run(seed: int, actions: int = 60) -> RegistryWorld:
    """Let a world live through random actions, heal it, and check it."""
    random = Random(seed)
    spellings = ("{tenant}-{instance}-{topic}", "{topic}@{tenant}", "{instance}#{topic}", "{topic}")
    formats = [random.choice(spellings) for _ in range(random.randint(2, 4))]
    world = RegistryWorld(formats, {"tenant": "acme", "instance": "prod"})
    names = list(world.formats)
    world.rest()
    for _ in range(actions):
        name = random.choice(names)
        match random.choices(
            ("register", "step", "delete", "cut", "split", "heal", "restart", "promote"),
            (30, 40, 4, 4, 4, 4, 6, 8),
        )[0]:
            case "register":
                schema = Schema("AVRO", f'"{random.choice(TYPES)}"')
                world.register(name, random.choice(TOPICS), schema)
            case "step":
                world.step(name)
            case "delete":
                world.delete(name, random.choice(TOPICS))
            case "cut":
                world.cut(*random.sample(names, 2))
            case "split":
                world.split(random.sample(names, random.randint(1, len(names) - 1)))
            case "heal":
                world.heal()
            case "restart":
                world.restart(name)
            case "promote":
                world.promote(name, force=random.random() < 0.5)
        world.check()
    world.heal()
    world.rest()
    world.check_at_rest()
    return world
