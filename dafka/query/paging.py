"""Long lists in answers: as much as fits into one, and whether more follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from dafka.limits import READ_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE_BYTES_MAX = READ_BYTES_MAX
"""Names and numbers in one page: half of what a frame may have, the rest is MessagePack's."""

_NUMBERS_BYTES = 34
"""Two sequences, a size and the octets around them, at their largest."""

T = TypeVar("T")


def page(
    items: list[T], size_of: Callable[[T], int], bytes_max: int = PAGE_BYTES_MAX
) -> tuple[list[T], bool]:
    """Return the first of `items` that fit into one answer, and whether there are more.

    Args:
        items: In the order in which they are asked for.
        size_of: Bytes of the names in an item.
        bytes_max: Bytes of all of it.
    """
    size = 0
    for index, item in enumerate(items):
        size += size_of(item) + _NUMBERS_BYTES
        if size > bytes_max:
            return items[:index], True
    return items, False
