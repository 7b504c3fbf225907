"""Contexts: what leads into a cluster, said once for all commands, in a file of the user's.

An option that is given counts, else its variable `DAFKA_…`, else the context in use, else its
default. Processes that serve heed no context: what they belong to must not depend on who started
them, and what that user last looked at.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperOption

from dafka.errors import MisuseError
from dafka.process.files import replace_text, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typer.core import TyperCommand, TyperGroup

_ENDPOINTS = ("tower", "store")
_FILES = ("access", "key")
SETTINGS = (*_ENDPOINTS, *_FILES, "wire", "host", "advertise")
"""Names of the options that a context may say, in the order in which they are shown."""

_FILE_BYTES_MAX = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

_ENTERS = {"access", "key"}
"""Options of every command that enters a cluster."""

_SERVES = "shutdown_ms"
"""An option of every process that serves."""


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """What one context says; nothing of what is empty or None.

    Attributes:
        tower: Endpoints of the cluster's towers.
        store: Query ports of its stores.
        access: The access file of a cluster with keys.
        key: The secret key file of its user.
        wire: How its nodes write to each other.
        host: Where nodes of this machine bind.
        advertise: Where others reach them.
    """

    tower: tuple[str, ...] = ()
    store: tuple[str, ...] = ()
    access: str | None = None
    key: str | None = None
    wire: str | None = None
    host: str | None = None
    advertise: str | None = None

    def said(self) -> dict[str, str | tuple[str, ...]]:
        """What it says, by the name of the option."""
        return {name: value for name in SETTINGS if (value := getattr(self, name))}


@dataclass(frozen=True, slots=True)
class Contexts:
    """A user's contexts.

    Attributes:
        file: Where they are kept.
        current: The one in use, if no other is named.
        by_name: All of them.
    """

    file: Path
    current: str | None
    by_name: Mapping[str, ClusterContext]

    def named(self, name: str) -> ClusterContext:
        """Return one of them.

        Raises:
            MisuseError: There is none of this name.
        """
        if name not in self.by_name:
            known = (
                f"there are {', '.join(sorted(self.by_name))}" if self.by_name else "it has none"
            )
            raise MisuseError(
                f"no context {name!r} in {str(self.file)!r}: {known}; see `dafka context create`"
            )
        return self.by_name[name]

    def using(self, name: str | None) -> Contexts:
        """Return the same with another one in use, or none.

        Raises:
            MisuseError: There is none of this name.
        """
        if name is not None:
            self.named(name)
        return replace(self, current=name)

    def having(self, name: str, context: ClusterContext) -> Contexts:
        """Return the same and one more.

        Raises:
            MisuseError: There is one of this name, the name or what it says cannot be written.
        """
        if name in self.by_name:
            raise MisuseError(
                f"context {name!r} is in {str(self.file)!r} already: "
                f"`dafka context delete {name}` first"
            )
        if _NAME.fullmatch(name) is None:
            raise MisuseError(f"name {name!r} cannot be used: letters, digits, '.', '_' and '-'")
        for setting, value in context.said().items():
            if not "".join(value).isprintable():
                raise MisuseError(f"--{setting} {value!r} cannot be kept: it is not printable")
        return replace(self, by_name={**self.by_name, name: context})

    def without(self, name: str) -> Contexts:
        """Return the same without one of them.

        Raises:
            MisuseError: There is none of this name.
        """
        self.named(name)
        left = {one: context for one, context in self.by_name.items() if one != name}
        return replace(self, current=None if self.current == name else self.current, by_name=left)

    def save(self) -> None:
        """Write the file anew, for its owner's eyes only. Its directory has to be there.

        Raises:
            OSError: It cannot be written.
        """
        lines = [] if self.current is None else [f"current = {_written(self.current)}"]
        for name, context in sorted(self.by_name.items()):
            lines += ["", f"[contexts.{_written(name)}]"]
            lines += [f"{what} = {_written(value)}" for what, value in context.said().items()]
        replace_text(self.file, "\n".join([*lines, ""]).lstrip(), private=True)


def _written(value: str | tuple[str, ...]) -> str:
    """A value in TOML, whose strings are JSON's as long as they are printable."""
    return json.dumps(value, ensure_ascii=False)


def contexts_file() -> Path:
    """Where a user's contexts are kept, by the XDG Base Directory Specification."""
    told = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        # The specification has paths ignored that are not absolute.
        home = Path(told) if told.startswith("/") else Path.home() / ".config"
    except RuntimeError as error:
        raise MisuseError(
            "there is no home directory to keep contexts in: set XDG_CONFIG_HOME"
        ) from error
    return home / "dafka" / "contexts.toml"


def load_contexts(file: Path) -> Contexts:
    """Read a file of contexts; there are none if it is not there.

    Raises:
        MisuseError: It cannot be used.
    """
    if not file.exists():
        return Contexts(file, None, {})
    # Who has no contexts need not wait for it.
    import tomllib

    try:
        found = tomllib.loads(text_of(file, _FILE_BYTES_MAX))
    except tomllib.TOMLDecodeError as error:
        raise MisuseError(f"file {str(file)!r} cannot be used: {error}; mend it there") from error
    current, tables = found.pop("current", None), found.pop("contexts", {})
    for unknown in found:
        raise _refusal(file, unknown, "is not known: `current` and `contexts` are")
    if current is not None and not isinstance(current, str):
        raise _refusal(file, "current", "must be the name of a context")
    if not isinstance(tables, dict):
        raise _refusal(file, "contexts", "must be a table: write [contexts.NAME]")
    by_name = {name: _context(file, name, table) for name, table in tables.items()}
    return Contexts(file, current, by_name)


def _context(file: Path, name: str, table: object) -> ClusterContext:
    place = f"contexts.{name}"
    if not isinstance(table, dict):
        raise _refusal(file, place, "must be a table: write [contexts.NAME]")
    said: dict[str, Any] = {}
    for setting, value in table.items():
        if setting not in SETTINGS:
            raise _refusal(file, f"{place}.{setting}", f"is not known: {', '.join(SETTINGS)} are")
        several = setting in _ENDPOINTS
        texts = value if several else [value]
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            what = "a list of endpoints" if several else "a string"
            raise _refusal(file, f"{place}.{setting}", f"must be {what}, and is {value!r}")
        if setting in _FILES:
            texts = [str(file.parent / one) for one in texts]
        said[setting] = tuple(texts) if several else texts[0]
    return ClusterContext(**said)


def _refusal(file: Path, place: str, complaint: str) -> MisuseError:
    return MisuseError(f"file {str(file)!r} cannot be used: {place} {complaint}")


def take_settings(command: TyperCommand | TyperGroup) -> None:
    """Let a command take from variables and contexts what it is not told."""
    names = {parameter.name for parameter in command.params}
    if not names >= _ENTERS:
        return
    for parameter in command.params:
        if parameter.name in SETTINGS:
            parameter.envvar = f"DAFKA_{parameter.name.upper()}"
    if _SERVES not in names:
        command.params.append(_context_option())


def _context_option() -> TyperOption:
    return TyperOption(
        param_decls=["--context"],
        metavar="NAME",
        envvar="DAFKA_CONTEXT",
        is_eager=True,  # before the options that it speaks for
        expose_value=False,
        callback=_enter,
        help="Context for options that are not given, if not the one in use: see `dafka context`.",
    )


def _enter(entered: typer.Context, _option: object, name: str | None) -> None:
    """Let a context say what a command is not told."""
    if entered.resilient_parsing:
        return
    contexts = load_contexts(contexts_file())
    name = name or contexts.current
    if name is None:
        return
    said = contexts.named(name).said()
    entered.default_map = {
        name: value[0] if isinstance(value, tuple) and not option.multiple else value
        for option in entered.command.params
        if isinstance(option, TyperOption)
        if (name := option.name) and (value := said.get(name))
    }
