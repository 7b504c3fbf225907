"""Why something that came from outside was not used: the label `reason` of `dafka_dropped_total`.

One list, so that the type checker refuses a reason that is not in it, and a test sees each of them
counted (tests/contracts/test_reasons.py). docs/operations.md says what each means.
"""

from __future__ import annotations

from typing import Literal, get_args

Reason = Literal[
    # A message: see `dafka.wire`.
    "address",
    "count",
    "frame count",
    "header size",
    "message id",
    "sequence",
    "signature",
    "slots",
    "topic",
    "topic count",
    "topic frame",
    "truncated",
    "version",
    # Its content: see `dafka.records`.
    "batch attributes",
    "batch checksum",
    "batch count",
    "batch header",
    "batch records",
    "batch sequence",
    "batch size",
    "content size",
    "envelope",
    # A beacon, or the peer that it announces.
    "beacon",
    "beacon address",
    "beacon endpoint",
    "beacon host",
    "beacon key",
    "too many peers",
    # What this node has no use or no room for.
    "append failed",
    "consumer full",
    "disputed partition",
    "duplicate",
    "not for a consumer",
    "not for a mirror",
    "not for a producer",
    "not for a store",
    "not for this store",
    "not read",
    "reorder buffer full",
    "stopped",
    "too many partitions",
    "too many stores",
    # What the peer's key does not allow.
    "no subscription",
    "not permitted",
    "subscription not permitted",
    # A question at a store's query port, a command at a distributor's control socket.
    "question frames",
    "query message",
    "query size",
    "query version",
    "membership",
    "links",
    "hold",
    "writers",
    "control message",
    "control size",
    "control version",
]

REASONS: tuple[Reason, ...] = get_args(Reason)
