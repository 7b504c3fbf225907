"""Asking processes how they are, over the HTTP port each serves its metrics on."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from dafka.process.caller import Caller
from distributor.survey import at_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from topology.model import Web
    from topology.processes import Process

TIMEOUT_S = 2.0
"""How long one page may take; the processes answer in milliseconds."""


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


def probe(processes: Sequence[Process], timeout_s: float = TIMEOUT_S) -> list[Vitals]:
    """Ask all of them at once; in their order.

    Args:
        processes: Which.
        timeout_s: How long each may take for one page.

    Raises:
        MisuseError: A file for asking them cannot be used.
    """
    callers = {process.web: caller_of(process.web, timeout_s) for process in processes}
    return at_once(partial(_probe, callers), processes)


def caller_of(web: Web | None, timeout_s: float) -> Caller:
    """Who asks processes that are started with these files.

    Raises:
        MisuseError: One of them cannot be used.
    """
    if web is None:
        return Caller(None, None, timeout_s)
    directory = Path(web.directory)
    return Caller(directory / web.access, directory / web.token, timeout_s)


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
