"""One cluster, as whoever connects to it has to know it: a value, made once and passed along.

It says where towers and stores are, where nodes of this process are bound and who they are, and how
the cluster's nodes write to each other. Nothing of it is kept anywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from dafka.errors import MisuseError
from dafka.model import Shape, address_of
from dafka.protocol.presence import PRESENCE, PresenceSettings
from dafka.transport.keys import Credentials, load_credentials
from dafka.wire.dialect import DEFAULT_DIALECT, dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.model import ClusterSpec

DELIVERIES = ("direct", "stores")
"""Whom a node connects to: everybody, or stores, which pass on what they have on disk."""

CONTENTS = (None, "batches", "classic", "raw")
"""What a publisher may be told to send; none leaves it to the cluster."""


@dataclass(frozen=True, slots=True, init=False)
class Cluster:
    """A cluster and this process's way into it. `Cluster("tcp://host:port")` is one without keys.

    Args:
        towers: Its tower, `tcp://host:port`, or several.
        stores: Query ports of its stores: one, or all that are to be asked.
        name: What people call it.
        host: Where nodes bind: `HOST`, `HOST:PORT`, `*`, `ipc:///DIRECTORY` or `inproc://`.
        advertise: `HOST` or `HOST:PORT` where others reach them; else where they are bound, or at
            `*` where its towers see them connect from.
        credentials: This process's key and those the cluster knows, in a cluster with keys.
        insecure: Let anybody in at other hosts than this machine's own, without keys.
        wire: How its nodes write to each other, "rfc46" or "libdafka", that of the C
            implementation.
        classic: Whether publishers also send every record by itself, for peers without batches. If
            it is not said, they do in the dialect of such peers.
        delivery: "direct", or "stores" if nodes of this process connect to stores only, which pass
            on what they have on disk.
        presence: The times of discovery, on which all its nodes must agree.

    Raises:
        MisuseError: There is no such wire or delivery, or none through stores with this wire.
    """

    towers: tuple[str, ...]
    stores: tuple[str, ...]
    name: str
    host: str
    advertise: str | None
    credentials: Credentials | None
    insecure: bool
    wire: str
    classic: bool | None
    delivery: str
    presence: PresenceSettings

    def __init__(
        self,
        towers: str | Sequence[str] = (),
        stores: str | Sequence[str] = (),
        *,
        name: str = "",
        host: str = "127.0.0.1",
        advertise: str | None = None,
        credentials: Credentials | None = None,
        insecure: bool = False,
        wire: str = DEFAULT_DIALECT,
        classic: bool | None = None,
        delivery: str = DELIVERIES[0],
        presence: PresenceSettings = PRESENCE,
    ) -> None:
        dialect(wire)
        if delivery not in DELIVERIES:
            raise MisuseError(f"delivery {delivery!r} is not known: {' or '.join(DELIVERIES)}")
        given = {
            "towers": (towers,) if isinstance(towers, str) else tuple(towers),
            "stores": (stores,) if isinstance(stores, str) else tuple(stores),
            "name": name,
            "host": host,
            "advertise": advertise,
            "credentials": credentials,
            "insecure": insecure,
            "wire": wire,
            "classic": classic,
            "delivery": delivery,
            "presence": presence,
        }
        for field, value in given.items():
            object.__setattr__(self, field, value)
        if self.is_guest and not self.may_have_guests:
            raise MisuseError(
                f"delivery through stores is not for cluster {self.called!r}: programs of another "
                "make, which may be in it, need to hear producers; say delivery direct, or wire "
                "rfc46 and not classic"
            )

    @classmethod
    def load(cls, path: Path | str, name: str) -> Cluster:
        """Return a cluster of a topology file, as who looks at it or copies from it enters it.

        Raises:
            TopologyError: The file cannot be used.
            MisuseError: It has no such cluster, or its key files cannot be used.
        """
        # Commands that name no file need not wait for what reads one.
        import topology

        declared = topology.load(path)
        for spec in declared.clusters:
            if spec.name == name:
                return cls.declared(spec)
        known = ", ".join(spec.name for spec in declared.clusters)
        raise MisuseError(f"there is no cluster {name!r} in {str(path)!r}; there are {known}")

    @classmethod
    def declared(cls, spec: ClusterSpec) -> Cluster:
        """Return what a topology file says of a cluster.

        Raises:
            MisuseError: Its key files cannot be used.
        """
        credentials = None
        if spec.security is not None:
            directory = Path(spec.security.directory)
            credentials = credentials_in(
                directory / spec.security.access, directory / spec.security.key
            )
        return cls(
            spec.towers,
            [store.query for store in spec.stores],
            name=spec.name,
            host=spec.host,
            advertise=spec.advertise,
            credentials=credentials,
            insecure=spec.insecure,
            wire=spec.wire,
            classic=spec.classic,
            delivery=spec.delivery,
        )

    @property
    def may_have_guests(self) -> bool:
        """Whether nodes of it may connect to stores only."""
        return self.shape() is Shape.BATCHES

    @property
    def is_guest(self) -> bool:
        """Whether nodes of this process, other than stores, do."""
        return self.delivery == "stores"

    def delivered(self, delivery: str | None) -> Cluster:
        """Return the same, with another way for records; the same way if none is said.

        Raises:
            MisuseError: There is no such delivery, or not here.
        """
        return self if delivery is None else replace(self, delivery=delivery)

    @property
    def called(self) -> str:
        """What to call it before people: its name, or else its towers."""
        return self.name or ", ".join(self.towers)

    def bound_at(self, host: str, advertise: str | None = None) -> Cluster:
        """Return the same, with nodes of this process bound, and reached by others, elsewhere."""
        return replace(self, host=host, advertise=advertise)

    def new_address(self) -> str:
        """Draw an address for a node: in a cluster with keys, one that is its key's."""
        return self.own_address(address_of(uuid4()))

    def own_address(self, drawn: str) -> str:
        """The address that a node of ours has for one that was drawn, or made of a name."""
        return drawn if self.credentials is None else self.credentials.own_address(drawn)

    def checked_address(self, address: str, kept_in: str) -> str:
        """Return an address that was drawn earlier, if a producer of ours is heard under it.

        Args:
            address: Which.
            kept_in: Where it is kept, for the message.

        Raises:
            MisuseError: It is of another key, or of none.
        """
        if self.credentials is not None and not self.credentials.may_write_under(address):
            raise MisuseError(
                f"spool {kept_in!r} cannot be used: its address {address} is not of this key, so "
                "nobody takes its records; use the key that it was made with, or give this one the "
                "right to mirror until everything in it is stored, and then begin a new one"
            )
        return address

    def checked_mirroring(self) -> Cluster:
        """Return the same, if its key may publish what others have produced.

        Raises:
            MisuseError: It may not.
        """
        if self.credentials is not None and not self.credentials.rights.mirror:
            raise MisuseError(
                f"cannot copy to cluster {self.name or self.towers[0]!r}: its key has no right to "
                "mirror, so no store takes what others have produced; make one with `dafka keys "
                "distributor --read '*' --write '*' --mirror '*'`"
            )
        return self

    def shape(self, content: str | None = None) -> Shape:
        """How a node publishes here, if it is not told otherwise.

        Raises:
            MisuseError: There is no such content.
        """
        if content not in CONTENTS:
            raise MisuseError(f"content {content!r} is not known: batches, classic or raw")
        if content == "raw":
            return Shape.RAW
        ours = self.wire == DEFAULT_DIALECT
        classic = not ours if self.classic is None else self.classic
        if content == "classic" or (content is None and classic):
            return Shape.CLASSIC
        return Shape.BATCHES if ours else Shape.MARKED


def cluster_of(given: Cluster | str) -> Cluster:
    """Return a cluster of which a user may have said no more than its tower."""
    return Cluster(given) if isinstance(given, str) else given


def credentials_in(access: Path, key: Path) -> Credentials:
    """Return what `load_credentials` does, and read only what has changed since the last time.

    A survey connects to every cluster every few seconds.

    Raises:
        MisuseError: A file cannot be used.
    """
    return _credentials(access, key, _changed(access), _changed(key))


@lru_cache(maxsize=1_024)
def _credentials(access: Path, key: Path, _access_ns: int, _key_ns: int) -> Credentials:
    return load_credentials(access, key)


def _changed(file: Path) -> int:
    """When a file was changed; what is wrong with one that is not there is said by who reads it."""
    try:
        return file.stat().st_mtime_ns
    except (OSError, ValueError):
        return 0
