"""The registry's REST interface. Source: Confluent Schema Registry API reference."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from dafka.errors import RegistryError
from dafka.limits import SCHEMA_BYTES_MAX
from dafka.model import is_address
from dafka.process import metrics
from dafka.schemas.compatibility import LANGUAGES
from dafka.schemas.requests import checked_id, checked_subject, place_of, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from dafka.schemas.entries import Schema
    from dafka.schemas.registry import Registry, SubjectVersion
    from dafka.schemas.service import Service

A = TypeVar("A")

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"

_BODY_BYTES_MAX = 8 * SCHEMA_BYTES_MAX
"""A schema within JSON, where an octet may take six, and what it refers to."""

_BODIES_MAX = 8
"""Requests with a body that are read and answered at once; others wait for their turn."""

BODY_S_MAX = 10.0
"""How long the body of a request may take to come."""

_WRITES = {"POST", "PUT", "DELETE"}

_JSON_TYPES = {
    *(MEDIA_TYPE, "application/json", "application/vnd.schemaregistry+json"),
    "application/octet-stream",
}
"""Those that Confluent's registry takes."""


_QUESTION = re.compile(rb"/compatibility/.+|/subjects/[^/]+")
"""What is posted to ask: whether a schema would do, and whether it is there."""


def right_of(scope: Scope) -> str:
    """Return which right a request needs where tokens are needed; see `WebAccess`."""
    method = scope["method"]
    asks = method == "POST" and _QUESTION.fullmatch(scope["raw_path"])
    return "register" if method in _WRITES and not asks else "schemas"


def application(
    service: Service, hosts: Collection[str] = (), body_s_max: float = BODY_S_MAX
) -> Starlette:
    """Return the application that speaks for a service.

    Args:
        service: See there.
        hosts: Names by which clients may call it, besides addresses and this machine's own names.
        body_s_max: How long the body of a request may take to come.
    """

    def route(path: str, **handlers: Callable[[Service, Request, object], object]) -> Route:
        by_method = {method.upper(): handler for method, handler in handlers.items()}
        return Route(path, partial(_answer, service, by_method), methods=list(by_method))

    subject, version = "/subjects/{subject}", "/subjects/{subject}/versions/{version}"
    compatibility = "/compatibility/subjects/{subject}/versions"
    served = Starlette(
        routes=[
            route("/", get=lambda *_: {}),
            route("/contexts", get=lambda *_: ["."]),
            route("/schemas", get=_schemas),
            route("/schemas/types", get=lambda *_: list(LANGUAGES)),
            route("/schemas/ids/{id}", get=_schema),
            route("/schemas/ids/{id}/schema", get=_schema_text),
            route("/schemas/ids/{id}/subjects", get=_schema_subjects),
            route("/schemas/ids/{id}/versions", get=_schema_versions),
            route("/subjects", get=_subjects),
            route(subject, post=_lookup, delete=_delete_subject),
            route(f"{subject}/versions", get=_versions, post=_register),
            route(version, get=_version, delete=_delete_version),
            route(f"{version}/schema", get=_version_text),
            route(f"{version}/referencedby", get=_referenced_by),
            route(compatibility, post=_compatible),
            route(f"{compatibility}/{{version}}", post=_compatible),
            route("/config", get=_level, put=_set_level, delete=_unset_level),
            route("/config/{subject}", get=_level, put=_set_level, delete=_unset_level),
            route("/mode", get=_mode, put=_set_mode, delete=_unset_mode),
            route("/mode/{subject}", get=_mode, put=_set_mode, delete=_unset_mode),
        ],
        exception_handlers={HTTPException: _refuse_path},
        middleware=[Middleware(_OwnHosts, {*hosts, *_own_names()}), Middleware(_RawPaths)],
    )
    served.state.bodies = asyncio.Semaphore(_BODIES_MAX)
    served.state.body_s_max = body_s_max
    return served


def _own_names() -> set[str]:
    """What this machine is called."""
    return {"localhost", socket.gethostname().lower()}


class _OwnHosts:
    """Refuses requests for other hosts, which a page of somebody else's site may have made.

    A browser sends such a page's requests here if its name is made to lead here (DNS rebinding).
    An address is nobody else's name.
    """

    def __init__(self, inner: ASGIApp, names: set[str]) -> None:
        self._inner = inner
        self._names = {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_ours(Headers(scope=scope).get("host", "")):
            message = "This registry is not called so: see `dafka schemas --allowed-host`."
            refusal = _response(421, {"error_code": 421, "message": message})
            await refusal(scope, receive, send)
            return
        await self._inner(scope, receive, send)

    def _is_ours(self, told: str) -> bool:
        host = told if told.endswith("]") else told.rpartition(":")[0] or told
        return host.lower() in self._names or is_address(host)


class _RawPaths:
    """Routes by the path as it was sent: a subject may have a slash, sent as %2F."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("raw_path"):
            scope["path"] = scope["raw_path"].decode("ascii")
        await self._inner(scope, receive, send)


async def _answer(
    service: Service,
    handlers: dict[str, Callable[[Service, Request, object], object]],
    request: Request,
) -> Response:
    method = "GET" if request.method == "HEAD" else request.method
    try:
        if method in _WRITES:
            async with _bodies(request):
                answer = await _asked(service, handlers[method], request, await _body(request))
        else:
            answer = await _asked(service, handlers[method], request, None)
        response = _response(200, answer)
    except RegistryError as error:
        response = _response(error.status, {"error_code": error.code, "message": str(error)})
    metrics.REGISTRY_REQUESTS.labels(method, response.status_code).inc()
    return response


async def _asked(
    service: Service,
    handler: Callable[[Service, Request, object], object],
    request: Request,
    body: object,
) -> object:
    with metrics.REGISTRY_SECONDS.time():
        # The log is asked with calls that wait: they get a thread, other requests go on.
        return await run_in_threadpool(handler, service, request, body)


def _bodies(request: Request) -> asyncio.Semaphore:
    """Of all requests to an application."""
    bodies: asyncio.Semaphore = request.app.state.bodies
    return bodies


async def _body(request: Request) -> object:
    octets = bytearray()
    seconds: float = request.app.state.body_s_max
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                octets += part
                if len(octets) > _BODY_BYTES_MAX:
                    raise RegistryError(413, f"The request is longer than {_BODY_BYTES_MAX} bytes.")
    except TimeoutError:
        raise RegistryError(408, f"The request took more than {seconds:g} s to come.") from None
    if not octets:
        return None
    # What a page of another site may send without asking first is of another type.
    if request.headers.get("content-type", "").partition(";")[0].strip() not in _JSON_TYPES:
        raise RegistryError(415, f"The request is not of type {MEDIA_TYPE} or application/json.")
    try:
        parsed: object = json.loads(octets)
    except (ValueError, RecursionError) as error:
        raise RegistryError(400, f"The request is not JSON: {error}") from error
    return parsed


async def _refuse_path(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _response(
        error.status_code,
        {
            "error_code": error.status_code,
            "message": f"HTTP {error.status_code} {error.detail}",
        },
    )


def _response(status: int, answer: object) -> Response:
    text = answer if isinstance(answer, _Raw) else json.dumps(answer)
    return Response(text, status, media_type=MEDIA_TYPE)


class _Raw(str):
    """An answer that is not made JSON any more: the text of a schema."""

    __slots__ = ()


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() == "true"


def _which(request: Request) -> dict[str, bool]:
    """Which subjects, or versions, are meant: those that are there, unless it says otherwise."""
    only = _flag(request, "deletedOnly")
    return {"deleted": only or _flag(request, "deleted"), "live": not only}


def _prefix(request: Request) -> str:
    """What subjects are to begin with; `:*:` is that of all contexts, of which there is one."""
    return request.query_params.get("subjectPrefix", "").removeprefix(":*:")


def _paged(request: Request, found: list[A]) -> list[A]:
    """What is asked for of a list: from `offset` on, `limit` of it; a negative limit is none."""
    offset, limit = (_number(request, *given) for given in (("offset", 0), ("limit", -1)))
    found = found[max(0, offset) :]
    return found if limit < 0 else found[:limit]


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,10}", text):
        raise RegistryError(404, f"HTTP 404 Not Found: {name} is no number")
    return int(text)


def _subject(request: Request) -> str | None:
    subject = request.path_params.get("subject")
    return None if subject is None else unquote(subject)


def _named(request: Request) -> str:
    return unquote(request.path_params["subject"])


def _text(request: Request, schema: Schema) -> str:
    """A schema as it was registered, or with `format=serialized` what it was compiled to."""
    return schema.content if request.query_params.get("format") == "serialized" else schema.text


def _described(request: Request, schema: Schema) -> dict[str, object]:
    described: dict[str, object] = {"schema": _text(request, schema)}
    if schema.language != "AVRO":
        described["schemaType"] = schema.language
    if schema.references:
        described["references"] = [reference._asdict() for reference in schema.references]
    return described


def _found(request: Request, found: SubjectVersion) -> dict[str, object]:
    place = {"subject": found.subject, "version": found.number, "id": found.version.id}
    return {**place, **_described(request, found.schema)}


def _schema(service: Service, request: Request, _body: object) -> object:
    id_ = checked_id(request.path_params["id"])
    described = _described(request, service.ask(lambda registry: registry.schema(id_)))
    if _flag(request, "fetchMaxId"):
        described["maxId"] = service.ask(lambda registry: registry.id_max())
    return described


def _schemas(service: Service, request: Request, _body: object) -> object:
    which, prefix, latest = _which(request), _prefix(request), _flag(request, "latestOnly")
    found = service.ask(lambda registry: registry.schemas(**which, prefix=prefix, latest=latest))
    return [_found(request, one) for one in _paged(request, found)]


def _schema_text(service: Service, request: Request, _body: object) -> object:
    id_ = checked_id(request.path_params["id"])
    return _Raw(_text(request, service.ask(lambda registry: registry.schema(id_))))


def _schema_subjects(service: Service, request: Request, _body: object) -> object:
    id_, deleted = checked_id(request.path_params["id"]), _flag(request, "deleted")
    uses = service.ask(lambda registry: registry.uses_of(id_, deleted=deleted))
    return _paged(request, sorted({subject for subject, _ in uses}))


def _schema_versions(service: Service, request: Request, _body: object) -> object:
    id_, deleted = checked_id(request.path_params["id"]), _flag(request, "deleted")
    uses = service.ask(lambda registry: registry.uses_of(id_, deleted=deleted))
    found = [{"subject": subject, "version": number} for subject, number in uses]
    return _paged(request, found)


def _subjects(service: Service, request: Request, _body: object) -> object:
    which, prefix = _which(request), _prefix(request)
    found = service.ask(lambda registry: registry.subjects(**which, prefix=prefix))
    return _paged(request, found)


def _lookup(service: Service, request: Request, body: object) -> object:
    schema, deleted = schema_of(body), _flag(request, "deleted")
    subject = _named(request)
    found = service.ask(lambda registry: registry.lookup(subject, schema, deleted=deleted))
    return _found(request, found)


def _register(service: Service, request: Request, body: object) -> object:
    schema, place, subject = schema_of(body), place_of(body), _named(request)
    return service.decide(lambda registry, id_: registry.register(subject, schema, id_, place))


def _versions(service: Service, request: Request, _body: object) -> object:
    subject, which = _named(request), _which(request)
    return _paged(request, service.ask(lambda registry: registry.versions(subject, **which)))


def _one_version(service: Service, request: Request) -> SubjectVersion:
    subject, wanted = _named(request), str(request.path_params["version"])
    deleted = _flag(request, "deleted")
    return service.ask(lambda registry: registry.version(subject, wanted, deleted=deleted))


def _version(service: Service, request: Request, _body: object) -> object:
    return _found(request, _one_version(service, request))


def _version_text(service: Service, request: Request, _body: object) -> object:
    return _Raw(_text(request, _one_version(service, request).schema))


def _referenced_by(service: Service, request: Request, _body: object) -> object:
    subject, wanted = _named(request), str(request.path_params["version"])
    deleted = _flag(request, "deleted")

    def question(registry: Registry) -> list[int]:
        number = registry.version(subject, wanted, deleted=True).number
        return registry.referenced_by(subject, number, deleted=deleted)

    return _paged(request, service.ask(question))


def _delete_version(service: Service, request: Request, _body: object) -> object:
    subject, wanted = _named(request), str(request.path_params["version"])
    permanent = _flag(request, "permanent")
    return service.decide(
        lambda registry, _id: registry.delete_version(subject, wanted, permanent=permanent)
    )


def _delete_subject(service: Service, request: Request, _body: object) -> object:
    subject, permanent = _named(request), _flag(request, "permanent")
    return service.decide(
        lambda registry, _id: registry.delete_subject(subject, permanent=permanent)
    )


def _compatible(service: Service, request: Request, body: object) -> object:
    schema, subject = schema_of(body), _named(request)
    wanted, verbose = request.path_params.get("version"), _flag(request, "verbose")
    try:
        found = service.ask(lambda registry: registry.obstacles(subject, schema, wanted))
    except RegistryError as error:
        if not verbose or error.code != 42201:
            raise
        found = [str(error)]
    answer: dict[str, object] = {"is_compatible": not found}
    if verbose:
        answer["messages"] = found
    return answer


def _level(service: Service, request: Request, _body: object) -> object:
    subject, default = _subject(request), _flag(request, "defaultToGlobal")
    level = service.ask(lambda registry: registry.level(subject, default=default))
    return {"compatibilityLevel": level}


def _set_level(service: Service, request: Request, body: object) -> object:
    _refuse_settings(body)
    subject, wanted = _subject(request), _field(body, "compatibility")
    # It is always so, whoever says it.
    echo = {"normalize": True} if isinstance(body, dict) and body.get("normalize") else {}
    if subject is not None:
        checked_subject(subject)
    if echo and not wanted:
        return echo
    answer = service.decide(lambda registry, _id: registry.set_level(subject, wanted))
    assert isinstance(answer, dict)
    return {**answer, **echo}


def _unset_level(service: Service, request: Request, _body: object) -> object:
    subject = _subject(request)
    return service.decide(lambda registry, _id: registry.set_level(subject, None))


def _mode(service: Service, request: Request, _body: object) -> object:
    subject, default = _subject(request), _flag(request, "defaultToGlobal")
    return {"mode": service.ask(lambda registry: registry.mode(subject, default=default))}


def _set_mode(service: Service, request: Request, body: object) -> object:
    subject, wanted, force = _subject(request), _field(body, "mode"), _flag(request, "force")
    if subject is not None:
        checked_subject(subject)
    return service.decide(lambda registry, _id: registry.set_mode(subject, wanted, force=force))


def _unset_mode(service: Service, request: Request, _body: object) -> object:
    subject = _subject(request)
    return service.decide(lambda registry, _id: registry.set_mode(subject, None))


def _refuse_settings(body: object) -> None:
    """Refuse what Confluent's registry takes besides a level, and this one would not heed."""
    given = body if isinstance(body, dict) else {}
    for name, value in given.items():
        # Schemas are always compared by what they are, whatever their white space.
        heeded = name == "compatibility" or (name == "normalize" and value is True)
        if value is not None and not heeded:
            raise RegistryError(42203, f"{str(name)[:63]!r} cannot be set in this registry")


def _field(body: object, name: str) -> object:
    """What a request sets; never None, which would take it away."""
    value = body.get(name) if isinstance(body, dict) else None
    return "" if value is None else value
