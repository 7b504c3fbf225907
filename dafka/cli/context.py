"""`dafka context`: say tower, stores and keys of a cluster once, and which cluster is meant."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dafka.cli.contexts import SETTINGS, ClusterContext, Contexts, contexts_file, load_contexts
from dafka.cli.options import Json, between_processes, entered
from dafka.errors import MisuseError
from dafka.model import endpoint_of
from dafka.process.files import locked
from dafka.wire.dialect import DEFAULT_DIALECT
from topology.output import Columns, column, print_rows
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator

context = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Keep tower, stores and keys of a cluster under a name: a context.\n\n"
    "An option that is given counts, else its variable, such as DAFKA_TOWER, else the context that "
    "--context or DAFKA_CONTEXT names, else the one in use. They are kept in "
    "~/.config/dafka/contexts.toml. tower, store, schemas and gateway, which serve, take none.\n\n"
    "Example: dafka context create prod --tower tcp://10.0.0.1:5556",
)

ContextName = Annotated[str, typer.Argument(metavar="NAME", help="The context.")]
Endpoints = list[str] | None


@context.command()
def create(
    name: ContextName,
    towers: Annotated[
        Endpoints, typer.Option("--tower", help="Endpoint of a tower; may be given repeatedly.")
    ] = None,
    stores: Annotated[
        Endpoints, typer.Option("--store", help="Query port of a store; may be given repeatedly.")
    ] = None,
    access_file: Annotated[
        Path | None, typer.Option("--access", help="Access file of a cluster with keys.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key", help="Secret key file of whoever uses it.")
    ] = None,
    wire_name: Annotated[str | None, typer.Option("--wire", help="rfc46 or libdafka.")] = None,
    bound_host: Annotated[
        str | None, typer.Option("--host", help="Where nodes of this machine bind.")
    ] = None,
    advertised_host: Annotated[
        str | None, typer.Option("--advertise", help="Where others reach them.")
    ] = None,
    use_it: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
) -> None:
    """Make a context.

    Example: dafka context create prod --tower tcp://10.0.0.1:5556 --store tcp://10.0.0.1:5558 --use
    """
    for endpoint in between_processes([*(towers or ()), *(stores or ())]):
        endpoint_of(endpoint)
    entered(access=access_file, key=key_file, wire=wire_name or DEFAULT_DIALECT)
    made = ClusterContext(
        tower=tuple(towers or ()),
        store=tuple(stores or ()),
        access=_absolute(access_file),
        key=_absolute(key_file),
        wire=wire_name,
        host=bound_host,
        advertise=advertised_host,
    )
    if not made.said():
        options = ", ".join(f"--{setting}" for setting in SETTINGS)
        raise MisuseError(f"context {name!r} would say nothing: give it some of {options}")
    with _changed() as contexts:
        contexts = contexts.having(name, made)
        (contexts.using(name) if use_it else contexts).save()
    say(f"{name}: " + ("in use" if use_it else f"use it with: dafka context use {name}"))


def _absolute(file: Path | None) -> str | None:
    return None if file is None else str(file.absolute())


@context.command()
def use(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The context; none at all without it.")
    ] = None,
) -> None:
    """Use a context from now on, wherever no other is named.

    Example: dafka context use prod
    """
    with _changed() as contexts:
        contexts.using(name).save()
    say("no context is in use" if name is None else f"{name}: in use")


@context.command()
def delete(name: ContextName) -> None:
    """Forget a context. The cluster and its keys stay as they are.

    Example: dafka context delete prod
    """
    with _changed() as contexts:
        contexts.without(name).save()
    say(f"{name}: forgotten")


@contextmanager
def _changed() -> Iterator[Contexts]:
    """The contexts, to save what is made of them; no other process changes them meanwhile."""
    file = contexts_file()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(file.parent):
            yield load_contexts(file)
    except OSError as error:
        raise MisuseError(f"cannot write to {str(file)!r}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class ContextRow:
    """A context, as `--json` tells it.

    Attributes:
        context: Its name.
        in_use: Whether it counts where no other is named.
        tower: What it says, as the next ones; see `ClusterContext`.
    """

    context: str
    in_use: bool
    tower: tuple[str, ...]
    store: tuple[str, ...]
    access: str | None
    key: str | None
    wire: str | None
    host: str | None
    advertise: str | None

    @classmethod
    def of(cls, contexts: Contexts, name: str) -> ContextRow:
        """One of a user's."""
        found = contexts.named(name)
        said = {setting: getattr(found, setting) for setting in SETTINGS}
        return cls(context=name, in_use=name == contexts.current, **said)


CONTEXTS: Columns[ContextRow] = (
    column("", lambda row: "*" if row.in_use else ""),
    column("context"),
    column("towers", lambda row: ", ".join(row.tower) or "-"),
    column("stores", lambda row: ", ".join(row.store) or "-"),
    column("key"),
)


@context.command("list")
def list_contexts(json_lines: Json = False) -> None:
    """List the contexts; a star marks the one in use.

    Example: dafka context list
    """
    contexts = load_contexts(contexts_file())
    rows = [ContextRow.of(contexts, name) for name in sorted(contexts.by_name)]
    print_rows(rows, CONTEXTS, as_json=json_lines)


@context.command()
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The context, if not the one in use.")
    ] = None,
    json_lines: Json = False,
) -> None:
    """Show a context.

    Example: dafka context show prod
    """
    contexts = load_contexts(contexts_file())
    wanted = name or contexts.current
    if wanted is None:
        raise MisuseError("no context is in use: name one; see `dafka context list`")
    if json_lines:
        print_rows([ContextRow.of(contexts, wanted)], CONTEXTS, as_json=True)
        return
    for setting, value in contexts.named(wanted).said().items():
        say(f"--{setting} {' '.join(value) if isinstance(value, tuple) else value}")
