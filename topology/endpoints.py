"""What an endpoint looks like: told from text, nothing is looked up."""

from __future__ import annotations

import re

from topology.errors import short
from topology.hosts import names_a_host

PORT_MAX = 65_535

_ENDPOINT = re.compile(r"(tcp|http)://(.+):([0-9]{1,5})")


def endpoint_fault(
    value: object, port_max: int = PORT_MAX, kind: str = "tcp"
) -> tuple[str, str] | None:
    """What is wrong with an endpoint, and what to do; None if nothing is."""
    match = _ENDPOINT.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[1] != kind or not names_a_host(match[2]):
        hint = f"write {kind}://HOST:PORT, an IPv6 address in brackets"
        return f"{short(value)} is not an endpoint", hint
    if not 1 <= int(match[3]) <= port_max:
        return f"port {match[3]} is out of range", f"1 to {port_max}"
    return None
