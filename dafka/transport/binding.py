"""Where a node binds its publisher, and what it tells others of that."""

from __future__ import annotations

import os
import re
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import MisuseError
from dafka.model import LocalEndpoint, Reach, is_address
from dafka.transport.sockets import numeric

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERY_HOST = ("*", "0.0.0.0", "[::]")  # noqa: S104 (named, not bound)
"""Every interface: an address that nobody can connect to."""

_PLACE = re.compile(r"(\*|[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")

_numbers = count()


class Binding(NamedTuple):
    """A place of TCP, `HOST` or `HOST:PORT`, of ipc, `ipc:///DIRECTORY`, or of inproc, `inproc://`.

    Attributes:
        scheme: tcp, ipc or inproc.
        host: Of TCP, a name or an address, in brackets if it is one of IPv6. Of ipc, a directory.
        port: Of TCP; 0 is any free one.
    """

    scheme: str
    host: str
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> Binding:
        """Read a place. With a port an IPv6 host stands in brackets.

        Raises:
            MisuseError: It is none.
        """
        if text == "inproc://":
            return cls("inproc", "")
        if isinstance(text, str) and text.startswith("ipc:"):
            return cls("ipc", LocalEndpoint.parse(text).removeprefix("ipc://").rstrip("/"))
        if isinstance(text, str) and text.count(":") > 1 and not text.startswith("["):
            text = f"[{text}]"
        match = _PLACE.fullmatch(text) if isinstance(text, str) else None
        port = int((match and match[2]) or 0)
        if match is None or port > 65_535 or match[2] == "0":
            raise MisuseError(
                f"host {text!r} cannot be used: expected HOST, HOST:PORT, ipc:///DIRECTORY "
                "or inproc://"
            )
        return cls("tcp", match[1], port)

    def __str__(self) -> str:
        if self.scheme != "tcp":
            return f"{self.scheme}://{self.host}"
        return f"{self.host}:{self.port}" if self.port else self.host

    def check(self, towers: Iterable[str], advertise: str | None) -> None:
        """Refuse a place that some of those who hear of it could not connect to.

        Args:
            towers: Their endpoints.
            advertise: What is told instead of the place, if anything is.

        Raises:
            MisuseError: There is such a tower.
        """
        reach = Reach.of_node(f"{self.scheme}:")
        for tower in towers:
            if reach < Reach.of_tower(tower):
                raise MisuseError(
                    f"cannot bind a node at {str(self)!r}: tower {tower} tells others of it, who "
                    f"may be {_BEYOND[reach]} and cannot connect to {self.scheme}"
                )
            if self.host in EVERY_HOST and advertise is None and not tower.startswith("tcp:"):
                raise MisuseError(
                    f"cannot bind a node at {str(self)!r}: tower {tower} sees no addresses; name "
                    "one interface, or say what to advertise"
                )

    def endpoint(self, address: str) -> str:
        """What to bind for a node: at ipc and inproc a name that nobody else has.

        Raises:
            MisuseError: The directory's name is too long.
        """
        if self.scheme == "tcp":
            return f"tcp://{self.host}:{self.port or '*'}"
        name = f"{address}.{os.getpid()}.{next(_numbers)}"
        return LocalEndpoint.parse(f"{self}/{name}" if self.host else f"{self}{name}")

    def told(self, advertise: str | None, bound: str) -> tuple[str, int]:
        """The host and port of the node's beacon.

        Of a node at every interface the host is empty: its towers see where it connects from. At
        ipc and inproc the host is the endpoint, and the port 0. Names are looked up here, once:
        nobody takes one from a beacon.

        Args:
            advertise: `HOST` or `HOST:PORT`, as others reach it; None if that is where it is bound.
            bound: The endpoint that ZeroMQ has bound.

        Raises:
            MisuseError: `advertise` is neither, or names every interface or what has no address, or
                this is no TCP.
        """
        if self.scheme != "tcp":
            if advertise is not None:
                raise MisuseError(f"cannot advertise {advertise!r}: the node is at {str(self)!r}")
            return bound, 0
        host, _, port = bound.removeprefix("tcp://").rpartition(":")
        if advertise is None:
            return "" if self.host in EVERY_HOST else host, int(port)
        told = Binding.parse(advertise)
        if told.scheme != "tcp" or told.host in EVERY_HOST:
            raise MisuseError(f"cannot advertise {advertise!r}: nobody can connect to it")
        address = numeric(told.host)
        if not is_address(address):
            raise MisuseError(
                f"cannot advertise {advertise!r}: no address is known for that name here; say the "
                "address"
            )
        return address, told.port or int(port)


_BEYOND = {Reach.PROCESS: "in other processes", Reach.MACHINE: "on other machines"}
