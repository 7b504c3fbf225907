"""Commands that are imported when they are asked for.

A store that starts need not wait for what another command has to do with schemas or web pages.

How a command line ends: what went wrong is one line on standard error, and an exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer import Typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from topology.extras import MissingExtraError, told_of_extras
from topology.terminal import complain, end_with_version, paragraphs

Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=end_with_version, is_eager=True, help="Say the version, and end."
    ),
]


class CommandPlace(NamedTuple):
    """Where a command is.

    Attributes:
        where: `module:name` of its function, or of its `Typer` if it has commands of its own.
        does: The first paragraph of its help: a list of commands does not import them all.
    """

    where: str
    does: str


def group_of(
    places: Mapping[str, CommandPlace],
    complete: Callable[[TyperCommand | TyperGroup], None] = lambda _: None,
) -> type[TyperGroup]:
    """Return the class of a group of commands.

    Args:
        places: By the commands' names, in the order of the help.
        complete: Called with each of them, and those below, when it is loaded.
    """

    class Commands(TyperGroup):
        def __init__(self, **attributes: Any) -> None:  # noqa: ANN401
            super().__init__(**attributes)
            self.commands = _Loading(places, complete)  # type: ignore[assignment]

        def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
            loading = self.commands
            self.commands = {
                name: TyperCommand(name, help=place.does, short_help=place.does)
                for name, place in places.items()
            }
            super().format_help(ctx, formatter)
            self.commands = loading

    return Commands


def by_default(command: str) -> type[TyperGroup]:
    """Return the class of a group that is one of its commands where none of them is named."""

    class Defaulting(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
            if not args or (args[0] not in self.commands and args[0] != "--help"):
                args = [command, *args]
            taken: list[str] = super().parse_args(ctx, args)
            return taken

    return Defaulting


def explained(command: TyperCommand | TyperGroup) -> None:
    """Have a command's help wrapped where it is shown, without boxes, which need room.

    In a list of commands its first paragraph stands whole.
    """
    command.help = paragraphs(command.help or "")
    command.short_help, _, _ = command.help.partition("\n\n")
    command.rich_markup_mode = None


def with_those_below(command: TyperCommand | TyperGroup) -> Iterator[TyperCommand | TyperGroup]:
    """Yield a command, and all that it is a group of; not those that are still to be imported."""
    yield command
    if isinstance(command, TyperGroup) and not isinstance(command.commands, _Loading):
        for one in command.commands.values():
            yield from with_those_below(one)  # type: ignore[arg-type]


class _Loading(Mapping[str, TyperCommand | TyperGroup]):
    """Commands by name."""

    def __init__(
        self,
        places: Mapping[str, CommandPlace],
        complete: Callable[[TyperCommand | TyperGroup], None],
    ) -> None:
        self._places = places
        self._complete = complete

    def __getitem__(self, command: str) -> TyperCommand | TyperGroup:
        module, _, name = self._places[command].where.partition(":")
        found = getattr(import_module(module), name)
        if not isinstance(found, Typer):
            function, found = found, Typer(add_completion=False)
            found.command()(function)
        loaded: TyperCommand | TyperGroup = get_command(found)  # type: ignore[assignment]
        loaded.name = command
        for one in with_those_below(loaded):
            explained(one)
            self._complete(one)
        return loaded

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


Errors = tuple[type[Exception], ...]


def run(program: str, app: Callable[[], None], misuse: Errors, failures: Errors) -> None:
    """Run a command line, and have on its way what it has printed.

    Args:
        program: Its name, before what is said.
        app: What it does.
        misuse: Errors of exit code 2, beside that an extra is not installed.
        failures: Errors of exit code 1, unless they are of `misuse`.
    """
    try:
        try:
            _run(program, app, (MissingExtraError, *misuse), failures)
        finally:
            if sys.stdout is not None:  # as it is where there is none at all
                sys.stdout.flush()
    except OSError as error:
        # Where all is well, nothing waits for what else is loaded with it.
        from topology.output import end_unwritten

        end_unwritten(program, error)


def _run(program: str, app: Callable[[], None], misuse: Errors, failures: Errors) -> None:
    try:
        with told_of_extras():
            app()
    except misuse as error:
        complain(program, error)
        sys.exit(2)
    except failures as error:
        complain(program, error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
