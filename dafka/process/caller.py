"""Asking processes of ours over HTTP, as the holder of a token, over TLS where they speak it."""

from __future__ import annotations

import ssl
import urllib.request
from typing import TYPE_CHECKING
from urllib.error import HTTPError

from dafka.errors import MisuseError
from dafka.process.files import text_of
from dafka.process.web_access import load_web_access

if TYPE_CHECKING:
    from pathlib import Path

PAGE_BYTES_MAX = 8 * 1024 * 1024
"""What is read of one page: a port may be in the hands of something else by now."""

TOKEN_BYTES_MAX = 1_024


class Caller:
    """Who asks.

    Args:
        access: `web.toml`, for the certificate that processes show; None where everybody may ask.
        token: The file of a token, which goes with that.
        timeout_s: How long one page may take.

    Raises:
        MisuseError: One of the files cannot be used, or only one is given.
    """

    def __init__(self, access: Path | None, token: Path | None, timeout_s: float) -> None:
        if (access is None) != (token is None):
            raise MisuseError("a web file and a token belong together")
        self._timeout_s = timeout_s
        # Our own processes are never behind a proxy, whatever the environment says.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        headers = []
        self._scheme = "http"
        if access is not None and token is not None:
            shown = text_of(token, TOKEN_BYTES_MAX, private=True).strip()
            if not shown.isascii() or not shown.isprintable():
                raise MisuseError(f"file {str(token)!r} holds no token")
            headers.append(("Authorization", f"Bearer {shown}"))
            certificate = load_web_access(access).certificate
            if certificate is not None:
                trusted = ssl.create_default_context()
                trusted.load_verify_locations(certificate[0])
                handlers.append(urllib.request.HTTPSHandler(context=trusted))
                self._scheme = "https"
        self._opener = urllib.request.build_opener(*handlers)
        self._opener.addheaders = headers

    def get(self, endpoint: str, page: str) -> tuple[bool, str]:
        """Return whether the answer is a good one, and its text.

        Raises:
            OSError: It does not answer in time, or not as it should; HTTPException, too.
        """
        url = f"{self._scheme}://{endpoint}{page}"
        try:
            with self._opener.open(url, timeout=self._timeout_s) as answer:
                return True, str(answer.read(PAGE_BYTES_MAX), "utf-8", "replace")
        except HTTPError as error:
            with error:
                return False, str(error.read(PAGE_BYTES_MAX), "utf-8", "replace")
