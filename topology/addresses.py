"""What a host may be called, what an endpoint looks like: told from text, nothing looked up."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from topology.errors import short

_HOST_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")


def names_a_host(text: str) -> bool:
    """Whether a text is a host's name or address; what looks like an address must be one."""
    try:
        if text.startswith("["):
            return text.endswith("]") and bool(IPv6Address(text[1:-1]))
        if re.fullmatch(r"[0-9.]+", text):
            return bool(IPv4Address(text))
    except AddressValueError:
        return False
    return _HOST_NAME.fullmatch(text) is not None


def normal_host(host: str) -> str:
    """One spelling for each host: `LocalHost`, `[0::1]` and the like."""
    host = host.lower()
    if host.startswith("["):
        return f"[{IPv6Address(host[1:-1])}]"
    return "127.0.0.1" if host == "localhost" else host


PORT_MAX = 65_535

SOCKET_PATH_BYTES_MAX = 107
"""What the address of a Unix socket holds."""

_SOCKET_PATH = re.compile(r"[A-Za-z0-9._@+/-]+")

_ENDPOINT = re.compile(r"(tcp|https?)://(.+):([0-9]{1,5})")


def socket_fault(path: str) -> tuple[str, str] | None:
    """What is wrong with the path of a Unix socket, and what to do; None if nothing is."""
    if len(path) > SOCKET_PATH_BYTES_MAX:
        bound = f"a Unix socket's path has {SOCKET_PATH_BYTES_MAX} at most"
        return f"socket {path!r} has {len(path)} bytes; {bound}", "for instance /run/dafka"
    if not _SOCKET_PATH.fullmatch(path):
        return (
            f"{short(path)} is not a socket's path",
            "letters, digits, '.', '_', '@', '+' and '-'",
        )
    return None


def endpoint_fault(
    value: object, port_max: int = PORT_MAX, kind: str = "tcp"
) -> tuple[str, str] | None:
    """What is wrong with an endpoint, and what to do; None if nothing is."""
    match = _ENDPOINT.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[1] not in (kind, f"{kind}s") or not names_a_host(match[2]):
        hint = f"write {kind}://HOST:PORT, an IPv6 address in brackets"
        return f"{short(value)} is not an endpoint", hint
    if not 1 <= int(match[3]) <= port_max:
        return f"port {match[3]} is out of range", f"1 to {port_max}"
    return None
