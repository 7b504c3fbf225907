"""Asking processes how they are, over the HTTP port each serves its metrics on."""

from __future__ import annotations

import ssl
import urllib.request
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError

from dafka.errors import MisuseError
from dafka.process.files import text_of
from dafka.process.web_access import load_web_access
from distributor.survey import at_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distributor.local.processes import Process
    from topology.model import Web

TIMEOUT_S = 2.0
"""How long one page may take; the processes answer in milliseconds."""

PAGE_BYTES_MAX = 8 * 1024 * 1024
"""What is read of one page: a port may be in the hands of something else by now."""

TOKEN_BYTES_MAX = 1_024


@dataclass(frozen=True, slots=True)
class Vitals:
    """One process, as it says itself.

    Attributes:
        process: Which.
        state: `ok`, `not ready`, `unwell`, `hangs` where it is there and says nothing, `no
            answer`, `refused` where the token or a certificate is not good for it, or `unknown`
            where it serves no metrics.
        reasons: Why it is not ok.
        exposition: Its metrics, as Prometheus reads them; empty if it does not serve them.
    """

    process: Process
    state: str
    reasons: tuple[str, ...] = ()
    exposition: str = ""


class Caller:
    """Asks processes as the holder of a token, over TLS where they speak it.

    Args:
        web: The files for that; None where everybody may ask.
        timeout_s: How long one page may take.

    Raises:
        MisuseError: One of them cannot be used.
    """

    def __init__(self, web: Web | None, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        # Our own processes are never behind a proxy, whatever the environment says.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        headers = []
        self._scheme = "http"
        if web is not None:
            directory = Path(web.directory)
            token = text_of(directory / web.token, TOKEN_BYTES_MAX, private=True).strip()
            if not token.isascii() or not token.isprintable():
                raise MisuseError(f"file {web.token!r} holds no token")
            headers.append(("Authorization", f"Bearer {token}"))
            certificate = load_web_access(directory / web.access).certificate
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


def probe(processes: Sequence[Process], timeout_s: float = TIMEOUT_S) -> list[Vitals]:
    """Ask all of them at once; in their order.

    Args:
        processes: Which.
        timeout_s: How long each may take for one page.

    Raises:
        MisuseError: A file for asking them cannot be used.
    """
    callers = {process.web: Caller(process.web, timeout_s) for process in processes}
    return at_once(partial(_probe, callers), processes)


def _probe(callers: Mapping[Web | None, Caller], process: Process) -> Vitals:
    if process.metrics is None:
        return Vitals(process, "unknown", ("serves no metrics",))
    get = partial(callers[process.web].get, process.metrics)
    try:
        well, unwell_reasons = get("/health")
        ready, unready_reasons = get("/ready")
        told, exposition = get("/metrics")
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        # Where nobody can be connected to in time, that is the reason, and not the error itself.
        state = "hangs" if isinstance(error, TimeoutError) else "no answer"
        state = "refused" if isinstance(reason, ssl.SSLError) else state
        return Vitals(process, state, (f"{process.metrics}: {reason}",))
    if not told:
        return Vitals(process, "refused", (f"{process.metrics}: {exposition.strip()}",))
    if not well:
        return Vitals(process, "unwell", tuple(unwell_reasons.splitlines()), exposition)
    if not ready:
        return Vitals(process, "not ready", tuple(unready_reasons.splitlines()), exposition)
    return Vitals(process, "ok", (), exposition)
