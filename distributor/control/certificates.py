"""What those who speak over gRPC show each other, and where one listens with it."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from dafka.errors import MisuseError


@dataclass(frozen=True, slots=True)
class Certificates:
    """What TLS needs, PEM each.

    Attributes:
        certificate: One's own, with those of its authorities behind it.
        key: Its key.
        authority: Who has a certificate that this one's has signed is whom one speaks to.
    """

    certificate: bytes
    key: bytes
    authority: bytes

    def of_client(self) -> grpc.ChannelCredentials:
        """For who connects."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)

    def of_server(self) -> grpc.ServerCredentials:
        """For who is connected to, and believes nobody who shows none.

        Raises:
            ValueError: They cannot be used.
        """
        shown = [(self.key, self.certificate)]
        return grpc.ssl_server_credentials(shown, self.authority, require_client_auth=True)


def bind(
    server: grpc.aio.Server, listen: str, certificates: Certificates | None, served: str
) -> int:
    """Take a port for a server; returns which.

    Args:
        server: Not started yet.
        listen: Where, `HOST:PORT`; port 0 is any.
        certificates: For TLS; None for none.
        served: Whom it serves, for people.

    Raises:
        MisuseError: It cannot listen there.
    """
    try:
        if certificates is None:
            return int(server.add_insecure_port(listen))
        return int(server.add_secure_port(listen, certificates.of_server()))
    except (RuntimeError, ValueError) as error:
        raise MisuseError(f"cannot serve {served} at {listen}: {error}") from error
