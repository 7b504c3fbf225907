"""CURVE: who is let in, and what each socket must prove.

Every connection is encrypted, and both ends prove their keys. Whoever binds asks the authenticator
(ZAP, RFC 27) whether a key is let in; it knows each cluster by a domain of its own. A socket whose
domain nobody answers for lets nobody in: that the authenticator has died must not open the door.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import zmq
from zmq.auth.thread import ThreadAuthenticator

from dafka.errors import MisuseError
from dafka.model import is_loopback
from dafka.process.clock import now_ms
from dafka.transport.sockets import context

if TYPE_CHECKING:
    from dafka.transport.access import Access
    from dafka.transport.keys import Credentials


SHUT_OUT_MS = 600_000
"""How long who floods a publisher with subscriptions that his key does not permit is not let in:
what he sent takes seconds to be forgotten."""


def checked_binding(host: str, credentials: Credentials | None, *, insecure: bool) -> None:
    """Refuse to let strangers in by oversight.

    Args:
        host: What is to be bound.
        credentials: Those of the node, if it has any.
        insecure: Whether the operator has said that anybody may come in.

    Raises:
        MisuseError: Other machines can reach the host, and nothing keeps them out.
    """
    if credentials is None and not insecure and not is_loopback(host):
        raise MisuseError(
            f"cannot bind {host!r} without keys: anybody who reaches it could read and write; "
            "make keys with `dafka keys`, or say insecure if the network keeps strangers out"
        )


def checked_infrastructure(
    endpoint: str, credentials: Credentials | None, *, insecure: bool
) -> None:
    """Refuse to open a tower or a query port to strangers, or with another key than the cluster's.

    Raises:
        MisuseError: Either.
    """
    if credentials is not None and not credentials.rights.infrastructure:
        raise MisuseError("towers and stores need the cluster's key, not that of a client")
    if endpoint.startswith(("ipc:", "inproc:")):
        return  # file permissions keep strangers out
    host = endpoint.removeprefix("tcp://").rpartition(":")[0]
    if host:  # else it is no endpoint, and that is said where it is bound
        checked_binding(host, credentials, insecure=insecure)


def refuse_keys_within(endpoint: str, credentials: Credentials | None) -> None:
    """Refuse keys where ZeroMQ does not look at them: it would let anybody in.

    Raises:
        MisuseError: There are keys, and the endpoint is of inproc.
    """
    if credentials is not None and endpoint.startswith("inproc:"):
        raise MisuseError(
            f"cannot use keys at {endpoint!r}: inproc proves none; use ipc or TCP, or leave them "
            "away, as all of it is one process"
        )


class Authenticator:
    """Answers for the domains of this process's clusters, in a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: ThreadAuthenticator | None = None
        self._shut_out: dict[str, int] = {}
        """Until when, by key."""

    def shut_out(self, key: str, for_ms: int = SHUT_OUT_MS) -> None:
        """Let the holder of a known key come in nowhere for a while; where he is, he stays."""
        self._shut_out[key] = now_ms() + for_ms

    def is_shut_out(self, key: str) -> bool:
        """Whether the holder of a key may not come in at present."""
        return self._shut_out.get(key, 0) > now_ms()

    def answer_for(self, access: Access) -> None:
        """Let in the keys of `access` at sockets of its domain."""
        with self._lock:
            if self._thread is None:
                self._thread = ThreadAuthenticator(context())
                self._thread.start()
            self._thread.configure_curve_callback(access.domain, _Provider(access, self))

    def stop(self) -> None:
        """Answer nobody any more: from here on nobody is let in."""
        with self._lock:
            if self._thread is not None:
                self._thread.stop()
                self._thread = None


class _Provider:
    """What the library asks about a key."""

    def __init__(self, access: Access, authenticator: Authenticator) -> None:
        self._access = access
        self._authenticator = authenticator

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether the holder of `key`, in Z85, may connect."""
        holder = key.decode()
        known = domain == self._access.domain and self._access.of(holder) is not None
        return known and not self._authenticator.is_shut_out(holder)


authenticator = Authenticator()
"""That of this process: sockets ask at one place, whoever made them."""


def guard(socket: zmq.Socket[bytes], credentials: Credentials | None) -> None:
    """Let only known keys in at a socket that will be bound."""
    if credentials is None:
        return
    authenticator.answer_for(credentials.access)
    socket.set(zmq.CURVE_SERVER, 1)
    socket.set(zmq.CURVE_SECRETKEY, credentials.secret.encode())
    socket.set_string(zmq.ZAP_DOMAIN, credentials.access.domain)
    socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)


def prove(socket: zmq.Socket[bytes], credentials: Credentials | None, server: str = "") -> None:
    """Prove the node's key at what the socket connects to next, which must prove `server`.

    Without `server`, the cluster's key.
    """
    if credentials is None:
        return
    socket.set(zmq.CURVE_PUBLICKEY, credentials.public.encode())
    socket.set(zmq.CURVE_SECRETKEY, credentials.secret.encode())
    socket.set(zmq.CURVE_SERVERKEY, (server or credentials.access.cluster).encode())


def user_of(frame: zmq.Frame) -> str:
    """The key of the peer that a frame came from; empty if none was proved."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""
