"""Chains of a ledger, as owners have written them."""

from __future__ import annotations

from dafka.gateway.events import LedgerLine, LineKind


def chain(epoch, *entries, whole=True):
    """What an earlier owner has written."""
    lines, end = [LedgerLine(epoch, 0, LineKind.BEGIN, 0)], 0
    for address, first, count in entries:
        lines.append(LedgerLine(epoch, len(lines), LineKind.ENTRY, end, address, first, count))
        end += count
    return [*lines, LedgerLine(epoch, len(lines), LineKind.OPEN, end)] if whole else lines
