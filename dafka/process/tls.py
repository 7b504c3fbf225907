"""The certificate that a process shows to who connects, and whose certificates it believes."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.process.files import text_of

if TYPE_CHECKING:
    from pathlib import Path

_KEY_BYTES_MAX = 1024 * 1024


def server_context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """Return what connections are accepted with.

    Args:
        certificate: A file, with those of its authorities behind it.
        key: A file that only its owner may read; it may be the same.
        client_ca: Whoever connects may show a certificate that this file's has signed; None: nobody
            is asked for one.

    Raises:
        MisuseError: One of them cannot be used.
    """
    text_of(key, _KEY_BYTES_MAX, private=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password OpenSSL would ask for one at the terminal, and wait.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        raise MisuseError(
            f"certificate {str(certificate)!r} with key {str(key)!r} cannot be used: {error}"
        ) from error
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise MisuseError(f"client_ca {client_ca} cannot be used: {error}") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
