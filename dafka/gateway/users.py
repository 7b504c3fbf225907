"""Who may use a gateway as a Kafka client, and the certificate that it shows.

| in `kafka.toml` | what |
|---|---|
| `users.NAME` | a user |
| its `scram-sha-256`, `scram-sha-512` | what is kept of its password |
| its `read`, `write`, `groups` | rules |
| its `producer_byte_rate`, `consumer_byte_rate` | quotas, in bytes a second at each gateway |
| `certificate`, `certificate_key` | files, relative to this one; with them everything is TLS |
| `client_ca` | a file: who shows a certificate that it has signed is the user whom that names |

Rules are those of keys (`dafka.transport.access`): prefixes of topics, and of groups. A user
without a verifier logs in by certificate alone, one without `groups` may be in none.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dafka.errors import MisuseError
from dafka.gateway.scram import ITERATIONS, MECHANISMS, Verifier, verifier_of
from dafka.process.files import text_of
from dafka.process.tls import server_context
from dafka.transport.access import EVERYTHING, Rights, rule

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from pathlib import Path

USERS_MAX = 1_000

_FILE_BYTES_MAX = 1024 * 1024
RATE_MAX = 10**12
_PASSWORD_BYTES = 24
_RULES = "read", "write", "groups"
RATES = "producer_byte_rate", "consumer_byte_rate"
"""Quotas, by Kafka's names."""
_FILES = "certificate", "certificate_key", "client_ca"


@dataclass(frozen=True, slots=True)
class KafkaUser:
    """Who may log in.

    Attributes:
        name: As the file calls it.
        rights: What it may read, write, and be a member of.
        verifiers: By mechanism, what is kept of its password; none for who has only a certificate.
        producer_byte_rate: Bytes a second of what it may produce; None for as many as there are.
        consumer_byte_rate: The same of what it may fetch.
    """

    name: str
    rights: Rights
    verifiers: Mapping[str, Verifier]
    producer_byte_rate: int | None = None
    consumer_byte_rate: int | None = None


ANYBODY = KafkaUser("", Rights(EVERYTHING, EVERYTHING), {})
"""Where nobody has to log in."""


@dataclass(frozen=True, slots=True)
class KafkaUsers:
    """What `kafka.toml` says.

    Attributes:
        users: By name.
        certificate: The certificate's file, and its key's; None for no TLS.
        client_ca: Whose certificates name users; None for nobody's.
        secret: What only the file knows, so that all gateways make up the same.
    """

    users: Mapping[str, KafkaUser]
    secret: bytes
    certificate: tuple[Path, Path] | None = None
    client_ca: Path | None = None

    def verifier(self, name: str, mechanism: str) -> Verifier:
        """What is kept of a user's password; of who has none, something that nobody can prove.

        The same each time it is asked for, as it is for those who are known.
        """
        user = self.users.get(name)
        found = None if user is None else user.verifiers.get(mechanism)
        if found is not None:
            return found
        said = hmac.digest(self.secret, f"{mechanism} {name}".encode(), "sha256")
        size = hashlib.new(mechanism.removeprefix("SCRAM-").replace("-", "")).digest_size
        return Verifier(said[:16], ITERATIONS, secrets.token_bytes(size), secrets.token_bytes(size))

    def context(self) -> ssl.SSLContext | None:
        """Return what connections are accepted with; None for no TLS.

        Raises:
            MisuseError: A certificate or key cannot be used.
        """
        if self.certificate is None:
            return None
        return server_context(*self.certificate, self.client_ca)


def load_users(file: Path) -> KafkaUsers:
    """Read who may use a gateway.

    Raises:
        MisuseError: It cannot be read, or is no such file, or its certificates cannot be used.
    """
    try:
        found = _users(tomllib.loads(text_of(file, _FILE_BYTES_MAX, private=True)), file.parent)
    except (tomllib.TOMLDecodeError, _UsersFileError, RecursionError) as error:
        raise MisuseError(f"users file {str(file)!r} cannot be used: {error}") from error
    found.context()
    return found


def new_password() -> str:
    """Return a password that nobody can guess."""
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def user_entry(name: str, password: str, rules: Mapping[str, list[str]]) -> str:
    """Return what `kafka.toml` says of a user."""
    kept = [
        f'{mechanism.lower()} = "{verifier_of(mechanism, password).written()}"'
        for mechanism in MECHANISMS
    ]
    kept += [
        f"{what} = {json.dumps(rules[what], ensure_ascii=False)}"
        for what in _RULES
        if rules.get(what)
    ]
    return "\n".join([f'\n[users."{name}"]', *kept]) + "\n"


def with_quotas(text: str, name: str, rates: Mapping[str, int | None]) -> str:
    """Return the text of `kafka.toml` with other quotas of a user; all else in it stays.

    Args:
        text: It can be used.
        name: The user's.
        rates: By what the file calls them; None: no quota.

    Raises:
        MisuseError: It has no such user, or is not written as `user_entry` writes it.
    """
    document = tomllib.loads(text)
    tables = document.get("users", {})
    if name not in tables:
        raise MisuseError(f"no user {name!r}: dafka keys {name} --kafka")
    for what, rate in rates.items():
        tables[name].pop(what, None)
        if rate is not None:
            tables[name][what] = rate
    lines = text.splitlines(keepends=True)
    heading = f'[users."{name}"]'
    begin = next((at for at, line in enumerate(lines) if line.strip() == heading), len(lines))
    rest = range(begin + 1, len(lines))
    end = next((at for at in rest if lines[at].startswith("[")), len(lines))
    kept = [one for one in lines[begin + 1 : end] if one.partition("=")[0].strip() not in rates]
    added = [f"{what} = {rate}\n" for what, rate in rates.items() if rate is not None]
    written = "".join([*lines[: begin + 1], *added, *kept, *lines[end:]])
    try:
        if tomllib.loads(written) == document:
            return written
    except tomllib.TOMLDecodeError:
        pass  # it is the same mistake
    raise MisuseError(f"the entry of user {name!r} is not as `dafka keys` writes it: edit the file")


class _UsersFileError(Exception):
    """What is wrong with a file, without its name."""


def _users(document: dict[str, Any], directory: Path) -> KafkaUsers:
    unknown = document.keys() - {"users", *_FILES}
    if unknown:
        raise _UsersFileError(f"unknown key {min(unknown)!r}")
    tables = document.get("users", {})
    if not isinstance(tables, dict) or not 0 < len(tables) <= USERS_MAX:
        raise _UsersFileError(f"it needs 1 to {USERS_MAX:,} users: dafka keys NAME --kafka")
    users = {name: _user(name, table) for name, table in tables.items()}
    secret = hashlib.sha256(repr(sorted(tables.items())).encode()).digest()
    certificate, key, client_ca = (document.get(what) for what in _FILES)
    if not all(isinstance(path, str) for path in (certificate, key, client_ca) if path is not None):
        raise _UsersFileError(f"{', '.join(_FILES)} are paths")
    if (certificate is None) != (key is None):
        raise _UsersFileError("`certificate` and `certificate_key` belong together")
    if certificate is None or key is None:
        if client_ca is not None:
            raise _UsersFileError("`client_ca` needs `certificate`: clients show theirs by TLS")
        return KafkaUsers(users, secret)
    signer = None if client_ca is None else directory / client_ca
    return KafkaUsers(users, secret, (directory / certificate, directory / key), signer)


def _user(name: str, table: object) -> KafkaUser:
    kept = {mechanism.lower(): mechanism for mechanism in MECHANISMS}
    if not isinstance(table, dict):
        raise _UsersFileError(f"user {name!r} must be a table")
    if not name:
        raise _UsersFileError("a user needs a name")
    unknown = table.keys() - {*kept, *_RULES, *RATES}
    if unknown:
        raise _UsersFileError(f"unknown key {min(unknown)!r} of user {name!r}")
    verifiers: dict[str, Verifier] = {}
    for key in kept.keys() & table.keys():
        try:
            verifiers[kept[key]] = Verifier.read(table[key])
        except (AttributeError, ValueError) as error:
            raise _UsersFileError(f"{key} of user {name!r} is no verifier") from error
    read, write, groups = (_prefixes(name, what, table.get(what, [])) for what in _RULES)
    rights = Rights(read, write, groups=groups)
    producer_rate, consumer_rate = (_rate(name, what, table.get(what)) for what in RATES)
    return KafkaUser(name, rights, verifiers, producer_rate, consumer_rate)


def _rate(name: str, what: str, rate: object) -> int | None:
    if rate is None or (type(rate) is int and 0 < rate <= RATE_MAX):
        return rate
    raise _UsersFileError(f"{what} of user {name!r} must be bytes a second, 1 to {RATE_MAX:,}")


def _prefixes(name: str, what: str, patterns: object) -> tuple[str, ...]:
    if not isinstance(patterns, list) or not all(isinstance(one, str) for one in patterns):
        raise _UsersFileError(f"{what} of user {name!r} must be a list of rules")
    try:
        return tuple(map(rule, patterns))
    except MisuseError as error:
        raise _UsersFileError(f"{what} of user {name!r}: {error}") from error
