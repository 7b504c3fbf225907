"""Asking processes how they are, over the HTTP port each serves its metrics on."""

from __future__ import annotations

import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.error import HTTPError

from distributor.survey import at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributor.local.processes import Process

TIMEOUT_S = 2.0
"""How long one page may take; the processes answer in milliseconds."""

PAGE_BYTES_MAX = 8 * 1024 * 1024
"""What is read of one page: a port may be in the hands of something else by now."""

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Our own processes are never behind a proxy, whatever the environment says."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """One process, as it says itself.

    Attributes:
        process: Which.
        state: `ok`, `not ready`, `unwell`, `hangs` where it is there and says nothing, `no
            answer`, or `unknown` where it serves no metrics.
        reasons: Why it is not ok.
        exposition: Its metrics, as Prometheus reads them; empty if it does not serve them.
    """

    process: Process
    state: str
    reasons: tuple[str, ...] = ()
    exposition: str = ""


def probe(processes: Sequence[Process]) -> list[Vitals]:
    """Ask all of them at once; in their order."""
    return at_once(_probe, processes)


def _probe(process: Process) -> Vitals:
    if process.metrics is None:
        return Vitals(process, "unknown", ("serves no metrics",))
    try:
        well, unwell_reasons = _get(process.metrics, "/health")
        ready, unready_reasons = _get(process.metrics, "/ready")
        _, exposition = _get(process.metrics, "/metrics")
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        # Where nobody can be connected to in time, that is the reason, and not the error itself.
        state = "hangs" if isinstance(error, TimeoutError) else "no answer"
        return Vitals(process, state, (f"{process.metrics}: {reason}",))
    if not well:
        return Vitals(process, "unwell", tuple(unwell_reasons.splitlines()), exposition)
    if not ready:
        return Vitals(process, "not ready", tuple(unready_reasons.splitlines()), exposition)
    return Vitals(process, "ok", (), exposition)


def _get(endpoint: str, page: str) -> tuple[bool, str]:
    """Whether the answer is a good one, and its text."""
    try:
        with _OPENER.open(f"http://{endpoint}{page}", timeout=TIMEOUT_S) as answer:
            return True, str(answer.read(PAGE_BYTES_MAX), "utf-8", "replace")
    except HTTPError as error:
        with error:
            return False, str(error.read(PAGE_BYTES_MAX), "utf-8", "replace")
