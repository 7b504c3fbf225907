"""Where a node binds its publisher, and what it tells others of that."""

from __future__ import annotations

import re
from typing import NamedTuple

from dafka.errors import MisuseError

EVERY_HOST = ("*", "0.0.0.0", "[::]")  # noqa: S104 (named, not bound)
"""Every interface: an address that nobody can connect to."""

_PLACE = re.compile(r"(\*|[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")


class Place(NamedTuple):
    """A host and a port.

    Attributes:
        host: A name or an address, in brackets if it is one of IPv6.
        port: 0 is any free one, or that which is bound.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Place:
        """Read `HOST` or `HOST:PORT`; with a port an IPv6 host stands in brackets.

        Raises:
            MisuseError: It is neither.
        """
        if isinstance(text, str) and text.count(":") > 1 and not text.startswith("["):
            text = f"[{text}]"
        match = _PLACE.fullmatch(text) if isinstance(text, str) else None
        port = int((match and match[2]) or 0)
        if match is None or port > 65_535 or match[2] == "0":
            raise MisuseError(f"host {text!r} cannot be used: expected HOST or HOST:PORT")
        return cls(match[1], port)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host

    def advertised(self, advertise: str | None, bound_port: int) -> Place:
        """What others are told: this place, unless the operator says another.

        Of a node at every interface the host is empty: its towers see where it connects from.

        Args:
            advertise: `HOST` or `HOST:PORT`, as others reach it; None if that is where it is bound.
            bound_port: The port it has got.

        Raises:
            MisuseError: `advertise` is neither, or names every interface.
        """
        if advertise is None:
            return Place("" if self.host in EVERY_HOST else self.host, bound_port)
        told = Place.parse(advertise)
        if told.host in EVERY_HOST:
            raise MisuseError(f"cannot advertise {advertise!r}: nobody can connect to it")
        return Place(told.host, told.port or bound_port)
