"""Passwords of Kafka clients: what is kept of them, and SCRAM's exchange (RFC 5802, RFC 7677).

Of a password only verifiers are kept: who reads them alone can neither log in nor, without
guessing, get the password back.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from typing import TYPE_CHECKING, NamedTuple

from scramp import ScramException, ScramMechanism
from scramp.core import Nonce

from dafka.errors import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Callable

MECHANISMS = "SCRAM-SHA-256", "SCRAM-SHA-512"

ITERATIONS = 4_096
"""As Kafka has it: some milliseconds for each guess of a password. Ours are random, see `users`."""

ITERATIONS_MAX = 100_000
"""Each login by PLAIN costs so many."""

_SALT_BYTES = 16


class Verifier(NamedTuple):
    """What is kept of a password, for one mechanism."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def written(self) -> str:
        """As it stands in a file."""
        parts = (self.salt, self.stored_key, self.server_key)
        salt, stored, server = (base64.b64encode(part).decode() for part in parts)
        return f"{self.iterations}:{salt}:{stored}:{server}"

    @classmethod
    def read(cls, text: str) -> Verifier:
        """Read what stands in a file.

        Raises:
            ValueError: It is none.
        """
        iterations, *parts = text.split(":")
        try:
            salt, stored, server = (base64.b64decode(part, validate=True) for part in parts)
        except binascii.Error as error:
            raise ValueError("no base 64") from error
        if not ITERATIONS <= int(iterations) <= ITERATIONS_MAX or not salt:
            raise ValueError("iterations")
        return cls(salt, int(iterations), stored, server)


def verifier_of(
    mechanism: str, password: str, salt: bytes | None = None, iterations: int = ITERATIONS
) -> Verifier:
    """Return what is to be kept of a password.

    Raises:
        CredentialsError: It has characters that no password may have (RFC 4013).
    """
    salt = salt or secrets.token_bytes(_SALT_BYTES)
    try:
        made = ScramMechanism(mechanism).make_auth_info(password, iterations, salt)
    except ScramException as error:
        raise CredentialsError("password") from error
    _, stored_key, server_key, _ = made
    return Verifier(salt, iterations, stored_key, server_key)


def proves(verifier: Verifier, mechanism: str, password: str) -> bool:
    """Whether that is the password; takes milliseconds."""
    shown = verifier_of(mechanism, password, verifier.salt, verifier.iterations)
    return hmac.compare_digest(shown.stored_key, verifier.stored_key)


class ScramExchange:
    """One login by SCRAM: the client's two messages, and what they are answered.

    Args:
        mechanism: One of `MECHANISMS`.
        find: Returns what is kept of a user's password; something random for who is unknown, so
            that nobody learns who is known.
    """

    def __init__(self, mechanism: str, find: Callable[[str], Verifier]) -> None:
        self.user = ""
        """Who it is, once the first message has come; proven by the second."""
        self._find = find
        self._server = ScramMechanism(mechanism).make_server(self._found)

    def first(self, message: bytes) -> bytes:
        """Take the client's first message; return the server's.

        Raises:
            CredentialsError: It is none.
        """
        try:
            self._server.set_client_first(message.decode())
            return str(self._server.get_server_first()).encode()
        except _WRONG as error:
            raise CredentialsError("scram") from error

    def final(self, message: bytes) -> bytes:
        """Take the client's proof; return the server's.

        librdkafka before 2.6.1, such as that of Debian's kcat, says its own nonce twice, as Kafka
        before 4 lets it. Nothing is weaker for that: the server's is in it, and the proof is one of
        what was said.

        Raises:
            CredentialsError: It proves nothing.
        """
        try:
            said, nonce = message.decode(), str(self._server.nonce)
            twice = nonce.removesuffix(str(self._server.s_nonce)) + nonce
            if f",r={twice}," in said:
                self._server.nonce = Nonce(twice)
            self._server.set_client_final(said)
            return str(self._server.get_server_final()).encode()
        except _WRONG as error:
            raise CredentialsError("proof") from error

    def _found(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        self.user = user
        found = self._find(user)
        return found.salt, found.stored_key, found.server_key, found.iterations


_WRONG = (ScramException, ValueError, LookupError)
"""What a message that is none may raise; texts and base 64 that cannot be read are values."""
