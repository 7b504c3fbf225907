"""Walking the table of a lifecycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dafka.protocol.machine import Lifecycle


def assert_follows(
    lifecycle: Lifecycle[Any],
    table: Mapping[Any, Collection[Any]],
    following: Any,
    change: Callable[[], object] | None,
) -> None:
    """That a change leads to `following`, if the table says so; without one, that nothing does."""
    state = lifecycle.state
    assert (change is not None) == (following in table[state])
    if change is not None:
        change()
        assert lifecycle.state is following
    elif following is not state:
        with pytest.raises(AssertionError, match="does not become"):
            lifecycle.become(following)
