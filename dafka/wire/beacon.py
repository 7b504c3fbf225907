"""Beacons: how nodes make themselves known to a tower, and the tower to everybody.

| who sends | frames |
|---|---|
| node to tower | `B`, address, host (empty: the connection's), port in decimal, [key] |
| the same, of a node that is not reached by TCP | `B`, address, endpoint, `0`, [key] |
| tower to nodes | `B`, address, endpoint, [key] |
| store to tower, besides | the same with `S` for `B` |
| guest to tower | the same with `V` for `B` |
| tower to guests | `S` for `B`, of a store |
| tower to a guest | `V` and its address for `B`: its own beacon |
| tower to all others | `BV` for `B`, of a guest |
| tower to a new node | `W`: a welcome |

A *guest* connects to stores only, so it need not hear of others, and everybody else hears of it
by a `B`, which a `V` marks: it never connects to them (docs/adr/0056). In a cluster with keys a
beacon carries the node's public key, which the tower has seen proved.

Source: 46/DAFKA, Node Discovery and Presence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from dafka.errors import MisuseError, WireError
from dafka.limits import ADDRESS_BYTES_MAX
from dafka.model import Endpoint, endpoint_of, is_address
from dafka.wire.primitives import octets_of, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import LocalEndpoint

BEACON = b"B"
OF_STORE = b"S"
OF_GUEST = b"V"
OF_GUEST_TO_OTHERS = BEACON + OF_GUEST
"""Begins as any other does: who does not know guests takes it for that."""
WELCOME = b"W"

KINDS = BEACON, OF_STORE, OF_GUEST
"""What the beacon of a node may begin with."""

KEY_BYTES = 40
"""A CURVE key in Z85."""


@dataclass(frozen=True, slots=True)
class NodeBeacon:
    """A node says where it can be reached; an empty host means "where I connect from".

    With port 0 the host is a whole endpoint, of ipc or inproc. The kind is one of `KINDS`.
    """

    address: str
    host: str
    port: int
    key: str = ""
    kind: bytes = BEACON


@dataclass(frozen=True, slots=True)
class TowerBeacon:
    """A tower passes on where a node can be reached, and whether that is a guest.

    An echo is for the guest alone that it names.
    """

    address: str
    endpoint: str
    key: str = ""
    guest: bool = False
    echo: bool = False


def encode_node_beacon(beacon: NodeBeacon) -> list[bytes]:
    """Return the four frames, five with a key, that a node sends to its towers."""
    host, port = octets_of(beacon.host), str(beacon.port).encode("ascii")
    return [beacon.kind, octets_of(beacon.address), host, port, *_key_frame(beacon.key)]


def decode_node_beacon(frames: Sequence[bytes]) -> NodeBeacon:
    """Read a node's beacon.

    Raises:
        WireError: It is not one.
    """
    if len(frames) not in (4, 5) or frames[0] not in KINDS:
        raise WireError("beacon")
    _check_address(frames[1])
    if len(frames[2]) > 255 or not frames[3].isdigit() or len(frames[3]) > 5:
        raise WireError("beacon endpoint")
    host, port = text(frames[2]), int(frames[3])
    if port > 65_535 or (port == 0) != host.startswith(("ipc:", "inproc:")):
        raise WireError("beacon endpoint")
    return NodeBeacon(text(frames[1]), host, port, _key(frames[4:]), frames[0])


def echo_of(address: str) -> bytes:
    """What a tower's copy of a guest's beacon begins with that is for the guest itself."""
    return OF_GUEST + octets_of(address)


def encode_tower_beacon(beacon: TowerBeacon, kind: bytes = BEACON) -> list[bytes]:
    """Return the three frames, four with a key, that a tower publishes.

    Args:
        beacon: Of a node.
        kind: `BEACON`, `OF_STORE`, `OF_GUEST_TO_OTHERS`, or its `echo_of`.
    """
    named = [kind, octets_of(beacon.address), octets_of(beacon.endpoint)]
    return named + _key_frame(beacon.key)


def decode_tower_beacon(frames: Sequence[bytes]) -> TowerBeacon | None:
    """Read a tower's beacon; None for its welcome.

    Raises:
        WireError: It is neither.
    """
    if len(frames) == 1 and frames[0] == WELCOME:
        return None
    if len(frames) not in (3, 4) or not frames[0].startswith(KINDS):
        raise WireError("beacon")
    _check_address(frames[1])
    endpoint = peer_endpoint(text(frames[2]))
    guest, echo = frames[0] == OF_GUEST_TO_OTHERS, frames[0].startswith(OF_GUEST)
    return TowerBeacon(text(frames[1]), str(endpoint), _key(frames[3:]), guest, echo)


_LABEL = r"[a-z0-9_][a-z0-9_-]{0,62}"
_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*(?=[0-9_-]*[a-z]){_LABEL}\.?", re.IGNORECASE)
"""A host name; there is a letter in its last label, so that no broken address is one."""


@lru_cache(maxsize=1_024)
def peer_endpoint(text: str) -> Endpoint | LocalEndpoint:
    """Read where a node is said to be: at an address, or at a name, which C programs may tell.

    Every node says the same each second: it is remembered how that was read.

    Raises:
        WireError: It is no endpoint.
    """
    try:
        endpoint = endpoint_of(text)
    except MisuseError as error:
        raise WireError("beacon endpoint") from error
    host = endpoint.host if isinstance(endpoint, Endpoint) else None
    if host is not None and not is_address(host) and not _NAME.fullmatch(host):
        raise WireError("beacon endpoint")
    return endpoint


def _key_frame(key: str) -> list[bytes]:
    return [octets_of(key)] if key else []


def _key(frames: Sequence[bytes]) -> str:
    if not frames:
        return ""
    if len(frames[0]) != KEY_BYTES or not frames[0].isascii():
        raise WireError("beacon key")
    return text(frames[0])


def _check_address(octets: bytes) -> None:
    if not 1 <= len(octets) <= ADDRESS_BYTES_MAX:
        raise WireError("beacon address")
