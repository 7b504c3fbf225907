"""What messages, events, effects and batches are: values that come and go by the million.

A frozen dataclass of five fields takes 0.68 µs to make, this 0.07.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["Value", "replace"]


class Value(Struct, frozen=True, gc=False):
    """Immutable, equal by its fields, and never part of a cycle: no collector looks at it."""
