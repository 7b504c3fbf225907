"""Beacons: how nodes make themselves known to a tower, and the tower to everybody.

| who sends | frames |
|---|---|
| node to tower | `B`, address, host (empty: the tower takes the connection's), port in decimal |
| tower to nodes | `B`, address, endpoint |
| tower to a new node | `W`: a welcome |

Source: 46/DAFKA, Node Discovery and Presence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.errors import MisuseError, WireError
from dafka.limits import ADDRESS_BYTES_MAX
from dafka.model import Endpoint
from dafka.wire.octets import octets_of, text

if TYPE_CHECKING:
    from collections.abc import Sequence

BEACON = b"B"
WELCOME = b"W"


@dataclass(frozen=True, slots=True)
class NodeBeacon:
    """A node says where it can be reached; an empty host means "where I connect from"."""

    address: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class TowerBeacon:
    """A tower passes on where a node can be reached."""

    address: str
    endpoint: str


def encode_node_beacon(beacon: NodeBeacon) -> list[bytes]:
    """Return the four frames a node sends to its towers."""
    host = octets_of(beacon.host)
    return [BEACON, octets_of(beacon.address), host, str(beacon.port).encode("ascii")]


def decode_node_beacon(frames: Sequence[bytes]) -> NodeBeacon:
    """Read a node's beacon.

    Raises:
        WireError: It is not one.
    """
    if len(frames) != 4 or frames[0] != BEACON:
        raise WireError("beacon")
    _check_address(frames[1])
    if len(frames[2]) > 255 or not frames[3].isdigit() or len(frames[3]) > 5:
        raise WireError("beacon endpoint")
    port = int(frames[3])
    if not 0 < port < 65_536:
        raise WireError("beacon endpoint")
    return NodeBeacon(text(frames[1]), text(frames[2]), port)


def encode_tower_beacon(beacon: TowerBeacon) -> list[bytes]:
    """Return the three frames a tower publishes."""
    return [BEACON, octets_of(beacon.address), octets_of(beacon.endpoint)]


def decode_tower_beacon(frames: Sequence[bytes]) -> TowerBeacon | None:
    """Read a tower's beacon; None for its welcome.

    Raises:
        WireError: It is neither.
    """
    if len(frames) == 1 and frames[0] == WELCOME:
        return None
    if len(frames) != 3 or frames[0] != BEACON:
        raise WireError("beacon")
    _check_address(frames[1])
    try:
        endpoint = Endpoint.parse(text(frames[2]))
    except MisuseError as error:
        raise WireError("beacon endpoint") from error
    return TowerBeacon(text(frames[1]), str(endpoint))


def _check_address(octets: bytes) -> None:
    if not 1 <= len(octets) <= ADDRESS_BYTES_MAX:
        raise WireError("beacon address")
