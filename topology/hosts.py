"""What a host may be called: a name, an IPv4 address, or an IPv6 address in brackets."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

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
