"""`dafka keys tls`: an authority, and a certificate for each role."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.process.clock import wall_ms
from dafka.process.files import locked, replace_text, text_of, write_secret
from dafka.process.roles import ROLES
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

AUTHORITY = "ca"
FOLDER = "tls"
FILE_BYTES_MAX = 64 * 1024
HERE = "localhost", "127.0.0.1", "::1"


def make_certificates(directory: Path, hosts: Sequence[str]) -> None:
    """Make a certificate for each role anew, by the authority that is there; else that, too.

    Args:
        directory: Their folder `tls` is made there.
        hosts: Where replicas are reached; this machine's loopback if there are none.

    Raises:
        MisuseError: A file is there that cannot be used, or cannot be written.
    """
    # Who makes none need not wait for it.
    from dafka.process.authority import KeyPair, new_authority, new_certificate

    folder = directory / FOLDER
    now = datetime.fromtimestamp(wall_ms() / 1_000, UTC)
    certificate_file, key_file = folder / f"{AUTHORITY}.pem", folder / f"{AUTHORITY}.key"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        with locked(folder):
            if not key_file.exists() and not certificate_file.exists():
                authority = new_authority(now)
                write_secret(key_file, authority.key.strip())
                replace_text(certificate_file, authority.certificate)
            authority = KeyPair(
                text_of(certificate_file, FILE_BYTES_MAX),
                text_of(key_file, FILE_BYTES_MAX, private=True),
            )
            for role in ROLES:
                made = new_certificate(authority, role, hosts or HERE, now)
                replace_text(folder / f"{role}.key", made.key, private=True)
                replace_text(folder / f"{role}.pem", made.certificate)
    except OSError as error:
        raise MisuseError(f"cannot write to {str(folder)!r}: {error.strerror}") from error
    say(f"{key_file}: keep it where nobody runs anything, it makes certificates")
    say(f"{certificate_file}: give it to everybody")
    for role in ROLES:
        say(f"{folder / role}.pem, {role}.key: give them to each {role}, and keep the key secret")
