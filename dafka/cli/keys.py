"""`dafka keys`: make the keys of a cluster, and of those who may use it."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from dafka.errors import MisuseError
from dafka.transport.access import rule
from dafka.transport.keys import RULES, load_access, new_keys, write_secret
from topology.terminal import say

CLUSTER = "cluster"
ACCESS_FILE = "access.toml"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

Rules = list[str]


def keys(
    name: Annotated[
        str, typer.Argument(help="`cluster`, to begin with; then any name for a user of it.")
    ],
    directory: Annotated[
        Path, typer.Option("--dir", help="Where the files are; made if it is not there.")
    ] = Path("keys"),
    read: Annotated[
        Rules | None, typer.Option(help="Prefix of topics and `*`; may be given repeatedly.")
    ] = None,
    write: Annotated[
        Rules | None, typer.Option(help="Prefix of topics and `*`; may be given repeatedly.")
    ] = None,
    mirror: Annotated[
        Rules | None,
        typer.Option(help="The same, of topics to write under any address: for distributors."),
    ] = None,
    groups: Annotated[
        Rules | None,
        typer.Option(help="Prefix of groups to be a member of and `*`, if not all; repeatedly."),
    ] = None,
) -> None:
    """Make a key: NAME.secret for its holder, and an entry in access.toml for everybody.

    Example: dafka keys shop --read 'orders*' --write 'orders*'
    """
    if _NAME.fullmatch(name) is None:
        raise MisuseError(f"name {name!r} cannot be used: letters, digits, '.', '_' and '-'")
    secret_file, access_file = directory / f"{name}.secret", directory / ACCESS_FILE
    rules = dict(zip(RULES, (read or [], write or [], mirror or [], groups or []), strict=True))
    for pattern in chain.from_iterable(rules.values()):
        rule(pattern)
    if name == CLUSTER:
        if any(rules.values()):
            raise MisuseError("the cluster's own key may do everything: it takes no rules")
        before = ""
    else:
        load_access(access_file)
        before = access_file.read_text()
    public, secret = new_keys()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(secret_file, secret)
        _replace(access_file, before + _entry(name, public, rules))
    except OSError as error:
        raise MisuseError(f"cannot write to {str(directory)!r}: {error.strerror}") from error
    say(f"{secret_file}: keep it secret\n{access_file}: give it to every node of the cluster")


def _entry(name: str, public: str, rules: dict[str, list[str]]) -> str:
    # Z85 has neither quotes nor backslashes, so that a key can stand in literal quotes.
    if name == CLUSTER:
        return f"cluster = '{public}'\n"
    lines = [f'\n[keys."{name}"]', f"public = '{public}'"]
    lines += [
        f"{what} = {json.dumps(patterns, ensure_ascii=False)}"
        for what, patterns in rules.items()
        if patterns or what != "groups"  # of which none at all is not the same as none
    ]
    return "\n".join(lines) + "\n"


def _replace(file: Path, text: str) -> None:
    """Write a file whole or not at all: nodes may be reading it."""
    draft = file.with_suffix(".new")
    draft.write_text(text)
    draft.replace(file)
