"""What one Kafka client may do: nothing before it has proven who it is, then what its user may.

| it proves that with | how |
|---|---|
| a certificate | `client_ca` of `kafka.toml` has signed it, and its common name is a user's |
| a password | SaslHandshake, then SaslAuthenticate: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 |

Who fails is told so late, and disconnected. Source: KIP-43, KIP-84, KIP-152.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from typing import TYPE_CHECKING, Any

from dafka.errors import CredentialsError, RequestError
from dafka.gateway.broker import ErrorCode
from dafka.gateway.scram import MECHANISMS, ScramExchange, proves
from dafka.gateway.wire import Api, answer_to
from dafka.process import metrics
from dafka.protocol.machine import Lifecycle

if TYPE_CHECKING:
    from types import SimpleNamespace

    from dafka.gateway.handlers import Handlers
    from dafka.gateway.users import KafkaUser, KafkaUsers
    from dafka.gateway.wire import Request

log = logging.getLogger(__name__)

PLAIN = "PLAIN"

_OFFERED = (PLAIN, *MECHANISMS)

LATE_S = 1.0
"""How long who has failed waits for its answer."""

_AUTH_BYTES_MAX = 512
"""Of what a client says to prove who it is: names and passwords are folded to one spelling, which
takes milliseconds for so much, and nobody has proven anything yet."""


class SessionState(Enum):
    """How far a client has come with proving who it is."""

    UNPROVEN = "unproven"
    """It has said nothing of that."""
    CHOSEN = "chosen"
    """It has said by which mechanism."""
    CHALLENGED = "challenged"
    """It has begun, and is to prove it."""
    PROVEN = "proven"
    """It is a user."""
    DENIED = "denied"
    """It has failed, and is disconnected."""


SESSION_STATES = {
    # It names a mechanism; or has shown a certificate.
    SessionState.UNPROVEN: {SessionState.CHOSEN, SessionState.PROVEN, SessionState.DENIED},
    # It begins with SCRAM; or has shown its password.
    SessionState.CHOSEN: {SessionState.CHALLENGED, SessionState.PROVEN, SessionState.DENIED},
    SessionState.CHALLENGED: {SessionState.PROVEN, SessionState.DENIED},
    SessionState.PROVEN: set[SessionState](),
    SessionState.DENIED: set[SessionState](),
}


class Session:
    """What one connection may.

    Args:
        handlers: What answers who may do everything.
        users: Who may log in; None: nobody has to.
        late_s: How long who has failed waits for its answer.
    """

    def __init__(
        self,
        handlers: Handlers,
        users: KafkaUsers | None = None,
        late_s: float = LATE_S,
    ) -> None:
        self._handlers, self._users, self._late_s = handlers, users, late_s
        self._lifecycle = Lifecycle(SESSION_STATES)
        self._mechanism = ""
        self.user = ""
        """Whom the client has proven to be; empty: nobody."""
        self._exchange: ScramExchange | None = None
        if users is None:
            self._lifecycle.become(SessionState.PROVEN)

    def show_certificate(self, subject: str) -> None:
        """The client has shown a certificate that names somebody; empty: none."""
        if self._users is not None and subject in self._users.users:
            self._prove(self._users.users[subject])

    @property
    def proven(self) -> bool:
        """Whether the client is somebody, or need not be."""
        return self._lifecycle.state is SessionState.PROVEN

    @property
    def muted_s(self) -> float:
        """For how long the client is not to be read from."""
        return self._handlers.muted_ms / 1_000

    def charged(self, request: Request) -> Request:
        """See `Handlers`."""
        return self._handlers.charged(request)

    async def answer(self, request: Request) -> list[bytes] | None:
        """Return the answer to a request, in pieces; None if the client wants none.

        Raises:
            RequestError: It cannot be answered: the client is to be disconnected.
        """
        if self._lifecycle.state is SessionState.DENIED:
            raise RequestError("credentials")
        if request.api is Api.SASL_HANDSHAKE and request.body is not None:
            return answer_to(request, self._choose(request.body))
        if request.api is Api.SASL_AUTHENTICATE and request.body is not None:
            return answer_to(request, await self._authenticate(request.body, request.host))
        if not self.proven and request.api is not Api.API_VERSIONS:
            raise RequestError("unproven")
        return await self._handlers.answer(request)

    def _choose(self, body: SimpleNamespace) -> dict[str, Any]:
        offered = {"mechanisms": _OFFERED}
        if self._users is None or self._lifecycle.state is not SessionState.UNPROVEN:
            return offered | {"error_code": ErrorCode.ILLEGAL_SASL_STATE}
        if body.mechanism not in _OFFERED:
            return offered | {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM}
        self._mechanism = body.mechanism
        self._lifecycle.become(SessionState.CHOSEN)
        return offered

    async def _authenticate(self, body: SimpleNamespace, host: str) -> dict[str, Any]:
        state = self._lifecycle.state
        if state not in (SessionState.CHOSEN, SessionState.CHALLENGED):
            return {
                "error_code": ErrorCode.ILLEGAL_SASL_STATE,
                "error_message": "nothing is to be proven now: SaslHandshake comes first",
            }
        try:
            return {"auth_bytes": [await self._proof(body.auth_bytes)]}
        except CredentialsError as error:
            self._lifecycle.become(SessionState.DENIED)
            metrics.KAFKA_LOGINS_FAILED.labels(self._mechanism).inc()
            facts = {"client": host, "why": error.reason}
            log.info("a Kafka client is denied", extra=facts)
            await asyncio.sleep(self._late_s)
            return {
                "error_code": ErrorCode.SASL_AUTHENTICATION_FAILED,
                # Not whether the user or the password is wrong.
                "error_message": f"no user has these credentials by {self._mechanism}",
            }

    async def _proof(self, shown: bytes) -> bytes:
        users = self._users
        assert users is not None
        if len(shown) > _AUTH_BYTES_MAX:
            raise CredentialsError("size")
        if self._mechanism == PLAIN:
            self._prove(await asyncio.to_thread(_by_password, users, shown))
            return b""
        if self._exchange is None:
            mechanism = self._mechanism
            self._exchange = ScramExchange(mechanism, lambda name: users.verifier(name, mechanism))
            challenge = self._exchange.first(shown)
            self._lifecycle.become(SessionState.CHALLENGED)
            return challenge
        told = self._exchange.final(shown)
        self._prove(users.users[self._exchange.user])
        return told

    def _prove(self, user: KafkaUser) -> None:
        self.user = user.name
        self._handlers = self._handlers.permitted(user)
        self._lifecycle.become(SessionState.PROVEN)


def _by_password(users: KafkaUsers, shown: bytes) -> KafkaUser:
    """Return who it is, by an authorization id, a name and a password, with zeros between."""
    try:
        as_whom, name, password = shown.decode().split("\0")
    except ValueError as error:
        raise CredentialsError("plain") from error
    user = users.users.get(name)
    mechanism = next(iter(user.verifiers if user else ()), MECHANISMS[0])
    known = proves(users.verifier(name, mechanism), mechanism, password)
    if not known or as_whom not in ("", name):
        raise CredentialsError("password")
    return users.users[name]
