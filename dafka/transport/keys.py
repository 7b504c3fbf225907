"""Key files: a node's secret key, and the access file that says whom a cluster knows.

| file | what |
|---|---|
| `access.toml` | `cluster`: public key of towers and stores; `keys.NAME`: public, and its rules |
| `NAME.secret` | a secret key; nobody but its owner may read it |
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zmq

from dafka.errors import MisuseError
from dafka.process.files import text_of
from dafka.transport.access import Access, Rights, fingerprint, rule

if TYPE_CHECKING:
    from pathlib import Path

KEY_CHARACTERS = 40
"""A CURVE key in Z85."""

RULES = "read", "write", "mirror", "groups"
"""What an access file says of a key, besides which it is; of groups nothing means all of them."""

KEYS_MAX = 10_000
"""Keys of one cluster."""

FILE_BYTES_MAX = 4 * 1024 * 1024
"""Ten thousand keys with their rules."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a node is in one cluster, and whom it lets in.

    Attributes:
        access: The cluster's keys.
        public: The node's own key.
        secret: The other half of it; not shown by `repr`.
    """

    access: Access
    public: str
    secret: str

    def __repr__(self) -> str:
        return f"Credentials(public={self.public!r})"

    @property
    def rights(self) -> Rights:
        """What the node's own key may do."""
        rights = self.access.of(self.public)
        assert rights is not None
        return rights

    def own_address(self, digits: str) -> str:
        """An address that is this key's: its fingerprint, then what `digits` has behind that."""
        mark = fingerprint(self.public)
        return mark + digits[len(mark) :]

    def may_write_under(self, address: str) -> bool:
        """Whether a producer of this key is heard under an address."""
        return bool(self.rights.mirror) or address.startswith(fingerprint(self.public))


def load_credentials(access: Path, key: Path) -> Credentials:
    """Read a node's credentials.

    Args:
        access: The cluster's access file: TOML, with `cluster` and a table `keys`.
        key: The node's secret key file, which nobody else may be able to read.

    Raises:
        MisuseError: A file cannot be read, or says nothing usable, or is open to others, or the
            access file does not know the key.
    """
    known = load_access(access)
    public, secret = _read_secret(key)
    if known.of(public) is None:
        raise MisuseError(f"key in {str(key)!r} is not among those of {str(access)!r}")
    return Credentials(known, public, secret)


def load_access(file: Path) -> Access:
    """Read a cluster's access file.

    Raises:
        MisuseError: It cannot be read, or is not one.
    """
    try:
        return _access(tomllib.loads(text_of(file, FILE_BYTES_MAX)))
    except (tomllib.TOMLDecodeError, _AccessError, RecursionError) as error:
        raise MisuseError(f"access file {str(file)!r} cannot be used: {error}") from error


def new_keys() -> tuple[str, str]:
    """A public key and its secret one."""
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


class _AccessError(Exception):
    """What is wrong with an access file, without its name."""


def _access(document: dict[str, Any]) -> Access:
    unknown = document.keys() - {"cluster", "keys"}
    if unknown:
        raise _AccessError(f"unknown key {min(unknown)!r}")
    tables = document.get("keys", {})
    if not isinstance(tables, dict) or len(tables) > KEYS_MAX:
        raise _AccessError(f"`keys` must be at most {KEYS_MAX} tables")
    rights = dict(_entry(name, table) for name, table in tables.items())
    if len(rights) < len(tables):
        raise _AccessError("a public key stands under two names")
    return Access(_checked_key("cluster", document.get("cluster")), rights)


def _entry(name: str, table: object) -> tuple[str, Rights]:
    if not isinstance(table, dict) or table.keys() - {"public", *RULES}:
        raise _AccessError(f"key {name!r} must have public, {', '.join(RULES)}, and nothing else")
    read, write, mirror, groups = (_rules(name, table.get(what, [])) for what in RULES)
    rights = Rights(read, write, mirror, groups=groups if "groups" in table else None)
    return _checked_key(name, table.get("public")), rights


def _rules(name: str, patterns: object) -> tuple[str, ...]:
    if not isinstance(patterns, list) or not all(isinstance(one, str) for one in patterns):
        raise _AccessError(f"rules of key {name!r} must be a list of prefixes")
    try:
        return tuple(rule(pattern) for pattern in patterns)
    except MisuseError as error:
        raise _AccessError(f"key {name!r}: {error}") from error


def _checked_key(name: str, key: object) -> str:
    if not isinstance(key, str) or len(key) != KEY_CHARACTERS or not key.isascii():
        shown = repr(key)[:60]
        raise _AccessError(f"public key of {name!r} must have {KEY_CHARACTERS} characters: {shown}")
    return key


def _read_secret(file: Path) -> tuple[str, str]:
    """The public key of a secret key file, and the secret one."""
    secret = text_of(file, 1_024, private=True).strip()
    try:
        public = zmq.curve_public(secret.encode()).decode()
    except (ValueError, zmq.ZMQError) as error:
        raise MisuseError(f"key file {str(file)!r} cannot be used: it holds no key") from error
    return public, secret
