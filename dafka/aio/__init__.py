"""Producers and consumers for asyncio: the same ones, whose waiting is the event loop's.

A node's thread does the work, as for threads; nothing here starts another for a call. `bell` is how
that thread wakes who waits.
"""
