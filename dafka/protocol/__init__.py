"""The roles of RFC 46 as machines: events in, effects out. No IO, clock, randomness or threads.

Every machine has the shape

    handle(event, now_ms) -> list[Effect]     `now_ms` from a monotonic clock
    wakeup_ms() -> int | None                 when to send it a `Woke` at the latest
    check() -> None                           asserts its invariants (the simulator calls it)

What a peer sends never raises: it becomes `Dropped(reason)`.
"""
