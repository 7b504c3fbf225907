"""Commands that are imported when they are asked for.

A store that starts need not wait for what another command has to do with schemas or web pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from typer import Typer
from typer.core import TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer.core import TyperCommand


def group_of(places: Mapping[str, str]) -> type[TyperGroup]:
    """Return the class of a group of commands.

    Args:
        places: `module:name` of each command's function, or of its `Typer` if it has commands of
            its own; in the order of the help.
    """

    class Commands(TyperGroup):
        def __init__(self, **attributes: Any) -> None:  # noqa: ANN401
            super().__init__(**attributes)
            self.commands = _Loading(places)  # type: ignore[assignment]

    return Commands


class _Loading(Mapping[str, "TyperCommand | TyperGroup"]):
    """Commands by name."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, command: str) -> TyperCommand | TyperGroup:
        module, _, name = self._places[command].partition(":")
        found = getattr(import_module(module), name)
        if not isinstance(found, Typer):
            function, found = found, Typer(add_completion=False)
            found.command()(function)
        loaded: TyperCommand | TyperGroup = get_command(found)  # type: ignore[assignment]
        loaded.name = command
        return loaded

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
