"""Asking a schema registry: this product's, Confluent's or Karapace's."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.request
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote

from dafka.errors import MisuseError, QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_S = 10.0
TRIES = 3
ANSWER_BYTES_MAX = 8 * 1024 * 1024
USES_MAX = 200
"""Schemas that one may refer to."""

REMEMBERED = 1_000
"""Schemas that a process remembers: an id means the same for ever."""

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class UnknownSchemaError(MisuseError):
    """A registry has no such schema."""


class RegisteredSchema(NamedTuple):
    """A schema of a registry.

    Attributes:
        id: What values carry.
        language: AVRO, JSON or PROTOBUF.
        text: As it was registered.
        uses: The texts of those it refers to, each behind those that it uses itself.
    """

    id: int
    language: str
    text: str
    uses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """Where a registry is, and who asks.

    Attributes:
        urls: `http://HOST:PORT` or `https://…`; the next one is asked where one does not answer.
        name, password: For Basic authentication; of this product's a token's name and the token.
        authority: A file of certificates to trust, on every machine; without it the machine's own.
        pause_s: Before the second try, and twice that before the third.
    """

    urls: tuple[str, ...]
    name: str = ""
    password: str = field(default="", repr=False)
    authority: str | None = None
    pause_s: float = 0.5

    @classmethod
    def at(cls, place: str | SchemaRegistry) -> SchemaRegistry:
        """Take a registry, or its URLs with commas.

        Raises:
            MisuseError: One is none.
        """
        if isinstance(place, SchemaRegistry):
            return place
        urls = tuple(one.strip().rstrip("/") for one in place.split(","))
        for url in urls:
            if not url.startswith(("http://", "https://")):
                raise MisuseError(f"a registry is at http://HOST:PORT or https://…, not at {url!r}")
        return cls(urls)

    def by_id(self, id_: int) -> RegisteredSchema:
        """Return the schema of an id; a process asks once.

        Raises:
            UnknownSchemaError: There is none.
            QueryError: No registry answers.
        """
        return _by_id(self, id_)

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest schema of a subject.

        Raises:
            UnknownSchemaError: There is none.
            QueryError: No registry answers.
        """
        told = self.ask(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return self.found(told["id"], told)

    def registered(self, subject: str, text: str, language: str) -> RegisteredSchema:
        """Return a schema that is registered under a subject; if it is not, it is now.

        Raises:
            MisuseError: The registry refuses it.
            QueryError: No registry answers.
        """
        body = {"schema": text, "schemaType": language}
        told = self.ask(f"/subjects/{quote(subject, safe='')}/versions", body)
        return RegisteredSchema(told["id"], language, text, ())

    def found(self, id_: int, told: dict[str, Any]) -> RegisteredSchema:
        """Return the schema that an answer tells, with all that it uses."""
        uses = tuple(self._uses(told, {}))
        return RegisteredSchema(id_, told.get("schemaType", "AVRO"), told["schema"], uses)

    def _uses(self, told: dict[str, Any], seen: dict[tuple[str, int], None]) -> Iterator[str]:
        for reference in told.get("references", ()):
            place = reference["subject"], reference["version"]
            if place in seen:
                continue
            seen[place] = None
            if len(seen) > USES_MAX:
                raise MisuseError(f"a schema refers to more than {USES_MAX} others")
            used = self.ask(f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}")
            yield from self._uses(used, seen)
            yield used["schema"]

    def ask(self, path: str, body: dict[str, str] | None = None) -> dict[str, Any]:
        """Return what a registry answers.

        Raises:
            UnknownSchemaError: It has no such thing.
            MisuseError: It refuses.
            QueryError: None answers, three times.
        """
        failures: list[str] = []
        for pause_s in (0.0, *(self.pause_s * 2**number for number in range(TRIES - 1))):
            time.sleep(pause_s)
            failures = []
            for url in self.urls:
                try:
                    return self._told(url + path, body)
                except (OSError, ValueError) as error:
                    failures.append(f"{url}: {error}")
        raise QueryError(f"no schema registry answers for {path}: {'; '.join(failures)}")

    def _told(self, url: str, body: dict[str, str] | None) -> dict[str, Any]:
        headers = {"Accept": _MEDIA_TYPE, "Content-Type": _MEDIA_TYPE}
        if self.name or self.password:
            who = base64.b64encode(f"{self.name}:{self.password}".encode()).decode()
            headers["Authorization"] = f"Basic {who}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers)  # noqa: S310 (checked by `at`)
        trusted = None
        if self.authority is not None:
            trusted = ssl.create_default_context(cafile=self.authority)
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=TIMEOUT_S, context=trusted
            ) as answer:
                told = json.loads(answer.read(ANSWER_BYTES_MAX))
        except HTTPError as error:
            with error:
                said = str(error.read(ANSWER_BYTES_MAX), "utf-8", "replace").strip()
            if error.code >= 500 or error.code == 429:
                raise OSError(f"{error.code}: {said}") from error
            kind = UnknownSchemaError if error.code == 404 else MisuseError
            raise kind(f"schema registry {url}: {error.code}: {said}") from error
        if not isinstance(told, dict):
            raise OSError("this is no answer of a schema registry")
        return told


@lru_cache(REMEMBERED)
def _by_id(registry: SchemaRegistry, id_: int) -> RegisteredSchema:
    told = registry.ask(f"/schemas/ids/{id_}")
    return registry.found(id_, told)
