"""What holders of certificates are, as these say it: no library is needed to read that."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROLES = ("controller", "replica", "operator", "viewer")

SERVING = ("replica", "controller")
"""Those that others connect to."""

CONNECTING = ("controller", "operator", "viewer")
"""Those that connect to others."""

_PREFIX = "urn:dafka:role:"


def uri_of(role: str) -> str:
    """As what a certificate names a role, among its alternative names."""
    return _PREFIX + role


def roles_in(names: Iterable[str]) -> frozenset[str]:
    """The roles among alternative names; none in certificates of other authorities."""
    return frozenset(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
