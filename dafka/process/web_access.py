"""Who may use what a process serves over HTTP, and the certificate that it shows.

| in `web.toml` | what |
|---|---|
| `tokens.NAME` | `sha256`: of a token, in hexadecimal; `may`: what its holder may do |
| `certificate`, `certificate_key` | files, relative to this one; with them everything is TLS |

A caller shows its token as `Authorization: Bearer TOKEN`, or as the password of Basic under its
name. Tokens are random, so a fast hash is as good as a slow one (ADR 24).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import re
import secrets
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dafka.errors import MisuseError
from dafka.model import is_loopback
from dafka.process import metrics
from dafka.process.files import text_of
from dafka.process.tls import server_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from pathlib import Path

log = logging.getLogger(__name__)

WEB_RIGHTS = "metrics", "dashboard", "schemas", "register"
"""What a token may be good for: `schemas` reads the registry, `register` changes it, too."""

TOKENS_MAX = 1_000

CHALLENGE = 'Basic realm="dafka", charset="UTF-8"'
"""What a browser needs to be told to ask for a name and a password."""

_TOKEN_BYTES = 32
_SHOWN_MAX = 1_024
"""Of an `Authorization` header: a name and a token are far shorter."""

_FILE_BYTES_MAX = 1024 * 1024
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a token.

    Attributes:
        name: As the file calls it.
        may: Some of `WEB_RIGHTS`.
    """

    name: str
    may: frozenset[str]


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a caller is not served.

    Attributes:
        status: 401: it has to show a token; 403: its token is not good for that.
        message: The same in words.
    """

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class WebAccess:
    """What `web.toml` says.

    Attributes:
        holders: By the SHA-256 of their tokens.
        certificate: The certificate's file, and its key's; None for no TLS.
    """

    holders: Mapping[bytes, Holder]
    certificate: tuple[Path, Path] | None = None

    def refusal(self, shown: str | None, right: str) -> Denial | None:
        """Return why a caller is not served, if it is not; that is counted.

        Args:
            shown: Its `Authorization` header, if it sent one.
            right: What it needs.
        """
        holder = self._holder(shown or "")
        if holder is None:
            refused = Denial(401, "Unauthorized: show a token, as Bearer or Basic.")
        elif right not in holder.may and not (right == "schemas" and "register" in holder.may):
            refused = Denial(403, f"Forbidden: {holder.name}'s token is not good for {right}.")
        else:
            return None
        metrics.WEB_REFUSED.labels(str(refused.status)).inc()
        return refused

    def _holder(self, shown: str) -> Holder | None:
        scheme, _, rest = shown[:_SHOWN_MAX].partition(" ")
        name, token = None, rest.strip()
        if scheme.lower() == "basic":
            try:
                name, _, token = base64.b64decode(token, validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                return None
        elif scheme.lower() != "bearer":
            return None
        found = self.holders.get(_digest(token))
        return found if found is not None and name in (None, found.name) else None

    def context(self) -> ssl.SSLContext | None:
        """Return what connections are accepted with; None for no TLS.

        Raises:
            MisuseError: The certificate or its key cannot be used.
        """
        if self.certificate is None:
            return None
        return server_context(*self.certificate)


def load_web_access(file: Path) -> WebAccess:
    """Read who may use what is served over HTTP.

    Raises:
        MisuseError: It cannot be read, or is no such file, or its certificate cannot be used.
    """
    try:
        found = _web_access(tomllib.loads(text_of(file, _FILE_BYTES_MAX)), file.parent)
    except (tomllib.TOMLDecodeError, _WebFileError, RecursionError) as error:
        raise MisuseError(f"web file {str(file)!r} cannot be used: {error}") from error
    found.context()
    return found


def scheme_of(access: WebAccess | None, host: str, what: str) -> str:
    """Return `https` or `http`; where tokens cross a network that way, say so.

    Args:
        access: Who may call it, if not everybody.
        host: Where it is served, an IPv6 address in brackets.
        what: Is served.
    """
    if access is not None and access.certificate is not None:
        return "https"
    if access is not None and not is_loopback(host):
        log.warning(
            "tokens cross the network as they are: name a certificate in the web file, unless "
            "something before it does TLS",
            extra={"serves": what, "host": host},
        )
    return "http"


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def entry(name: str, token: str, may: list[str]) -> str:
    """Return what `web.toml` says of a token."""
    rights = ", ".join(f'"{right}"' for right in may)
    return f'\n[tokens."{name}"]\nsha256 = "{_digest(token).hex()}"\nmay = [{rights}]\n'


class _WebFileError(Exception):
    """What is wrong with a file, without its name."""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _web_access(document: dict[str, Any], directory: Path) -> WebAccess:
    unknown = document.keys() - {"tokens", "certificate", "certificate_key"}
    if unknown:
        raise _WebFileError(f"unknown key {min(unknown)!r}")
    tables = document.get("tokens", {})
    if not isinstance(tables, dict) or not 0 < len(tables) <= TOKENS_MAX:
        raise _WebFileError(f"it needs 1 to {TOKENS_MAX:,} tokens: dafka keys NAME --web RIGHT")
    holders = dict(_holder(name, table) for name, table in tables.items())
    files = [document.get(what) for what in ("certificate", "certificate_key")]
    if files == [None, None]:
        return WebAccess(holders)
    certificate, key = files
    if not isinstance(certificate, str) or not isinstance(key, str):
        raise _WebFileError("`certificate` and `certificate_key` belong together: two paths")
    return WebAccess(holders, (directory / certificate, directory / key))


def _holder(name: str, table: object) -> tuple[bytes, Holder]:
    if not isinstance(table, dict) or table.keys() != {"sha256", "may"}:
        raise _WebFileError(f"token {name!r} must have sha256 and may, and nothing else")
    digest, may = table["sha256"], table["may"]
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
        raise _WebFileError(f"sha256 of token {name!r} must be 64 hexadecimal digits")
    if not isinstance(may, list) or not all(right in WEB_RIGHTS for right in may):
        rights = ", ".join(WEB_RIGHTS)
        raise _WebFileError(f"token {name!r} may {may!r}, which are not among {rights}"[:300])
    return bytes.fromhex(digest), Holder(name, frozenset(may))
