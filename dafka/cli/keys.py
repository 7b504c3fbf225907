"""`dafka keys`: make keys of a cluster and of who may use it, and tokens for what speaks HTTP."""

from __future__ import annotations

import json
import re
import tomllib
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dafka.cli.tls import make_certificates
from dafka.errors import MisuseError
from dafka.gateway.users import RATE_MAX, RATES, load_users, new_password, user_entry, with_quotas
from dafka.process.files import locked, replace_text, write_secret
from dafka.process.web_access import WEB_RIGHTS, entry, load_web_access, new_token
from dafka.transport.access import rule
from dafka.transport.keys import RULES, load_access, new_keys
from topology.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CLUSTER = "cluster"
TLS = "tls"
ACCESS_FILE = "access.toml"
WEB_FILE = "web.toml"
KAFKA_FILE = "kafka.toml"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

Rules = list[str]

Rate = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=RATE_MAX,
        metavar="BYTES",
        help="Quota of a user of kafka.toml, a second at each gateway; 0 removes it.",
    ),
]

Web = Annotated[
    Rules | None,
    typer.Option(
        help="A token instead, for what speaks HTTP: NAME.token, and an entry in web.toml; "
        f"{', '.join(WEB_RIGHTS)}; repeatedly."
    ),
]

Kafka = Annotated[
    bool,
    typer.Option(
        "--kafka",
        help="A password instead, for Kafka clients: NAME.password, and an entry in "
        "kafka.toml; without --groups it is for no group.",
    ),
]


def keys(
    name: Annotated[
        str,
        typer.Argument(
            help="`cluster`, to begin with; then any name for a user of it. `tls`: certificates of "
            "controllers and replicas."
        ),
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
    web: Web = None,
    kafka: Kafka = False,
    host: Annotated[
        Rules | None,
        typer.Option(help="Of `tls`: hosts of replicas and controllers, if not this; repeatedly."),
    ] = None,
    producer_byte_rate: Rate = None,
    consumer_byte_rate: Rate = None,
    quotas: Annotated[
        bool, typer.Option("--quotas", help="Show the quotas of a user of kafka.toml instead.")
    ] = False,
) -> None:
    """Make a key: NAME.secret for its holder, and an entry in access.toml for everybody.

    Example: dafka keys shop --read 'orders*' --write 'orders*'

    Example: dafka keys prometheus --web metrics

    Example: dafka keys shop --kafka --read 'orders*' --write 'orders*' --groups 'shop*'

    Example: dafka keys shop --producer-byte-rate 1000000

    Example: dafka keys tls --host dafka-1.example --host dafka-2.example
    """
    if _NAME.fullmatch(name) is None:
        raise MisuseError(f"name {name!r} cannot be used: letters, digits, '.', '_' and '-'")
    rules = dict(zip(RULES, (read or [], write or [], mirror or [], groups or []), strict=True))
    given = dict(zip(RATES, (producer_byte_rate, consumer_byte_rate), strict=True))
    rates = {what: rate for what, rate in given.items() if rate is not None}
    if name == TLS or host:
        others = [quotas, rates, web, kafka, *rules.values()]
        _make_certificates(name, directory, host or [], others)
    elif quotas or rates:
        if web or kafka or any(rules.values()):
            raise MisuseError("quotas are of a user that is there: make it first, without them")
        _set_quotas(name, directory / KAFKA_FILE, rates)
    elif web and kafka:
        raise MisuseError("a token is for HTTP, a password for Kafka clients: make one of them")
    elif kafka:
        _make_password(name, directory, rules)
    elif web:
        _make_token(name, directory, web, rules)
    else:
        _make_key(name, directory, rules)


def _make_certificates(
    name: str, directory: Path, hosts: list[str], others: Sequence[object]
) -> None:
    if name != TLS:
        raise MisuseError("--host is of `dafka keys tls`: other keys are good on every host")
    if any(others):
        raise MisuseError("certificates have roles and no rules: give --host and --dir alone")
    make_certificates(directory, hosts)


def _make_token(name: str, directory: Path, may: list[str], rules: dict[str, list[str]]) -> None:
    unknown = [right for right in may if right not in WEB_RIGHTS]
    if unknown:
        raise MisuseError(f"right {unknown[0]!r} is not known: {', '.join(WEB_RIGHTS)}")
    if any(rules.values()):
        raise MisuseError("a token is for HTTP alone: make a key for topics under another name")
    token_file, web_file = directory / f"{name}.token", directory / WEB_FILE
    token = new_token()
    _write(token_file, token, web_file, entry(name, token, may), load_web_access)
    say(f"{token_file}: keep it secret\n{web_file}: give it to every process with --web")


def _make_password(name: str, directory: Path, rules: dict[str, list[str]]) -> None:
    password_file, users_file = directory / f"{name}.password", directory / KAFKA_FILE
    for pattern in chain.from_iterable(rules.values()):
        rule(pattern)
    if rules["mirror"]:
        raise MisuseError("--mirror is for keys of distributors: Kafka clients write as themselves")
    password = new_password()
    known = user_entry(name, password, rules)
    _write(password_file, password, users_file, known, load_users, private=True)
    say(f"{password_file}: keep it secret\n{users_file}: give it to every gateway with --users")


def _set_quotas(name: str, file: Path, rates: dict[str, int]) -> None:
    try:
        with locked(file.parent):
            users = load_users(file).users
            text = file.read_text(encoding="utf-8")
            written = with_quotas(text, name, {what: rate or None for what, rate in rates.items()})
            if rates:
                replace_text(file, written, private=True)
                users = load_users(file).users
    except OSError as error:
        raise MisuseError(f"cannot write to {str(file)!r}: {error.strerror}") from error
    for what in RATES:
        rate = getattr(users[name], what)
        say(f"{what}: " + ("none" if rate is None else f"{rate:,} bytes a second"))


def _make_key(name: str, directory: Path, rules: dict[str, list[str]]) -> None:
    secret_file, access_file = directory / f"{name}.secret", directory / ACCESS_FILE
    for pattern in chain.from_iterable(rules.values()):
        rule(pattern)
    if name == CLUSTER:
        if any(rules.values()):
            raise MisuseError("the cluster's own key may do everything: it takes no rules")
    else:
        load_access(access_file)  # before a directory is made
    public, secret = new_keys()
    check = None if name == CLUSTER else load_access
    _write(secret_file, secret, access_file, _entry(name, public, rules), check)
    say(f"{secret_file}: keep it secret\n{access_file}: give it to every node of the cluster")


def _write(
    secret_file: Path,
    secret: str,
    known_file: Path,
    added: str,
    check: Callable[[Path], object] | None,
    *,
    private: bool = False,
) -> None:
    """Write what its holder keeps, and add to what others know.

    Args:
        secret_file: What is kept.
        secret: Its text.
        known_file: What others have.
        added: To its text.
        check: Complains of one that is there and cannot be used; None: it is begun anew.
        private: Whether only its owner may read it.
    """
    name, directory = secret_file.stem, known_file.parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(directory):
            known = added
            if check is not None and known_file.exists():
                check(known_file)
                known = known_file.read_text(encoding="utf-8") + added
            _refuse_doubled(name, known_file, known)
            write_secret(secret_file, secret)
            replace_text(known_file, known, private=private)
    except OSError as error:
        raise MisuseError(f"cannot write to {str(directory)!r}: {error.strerror}") from error


def _refuse_doubled(name: str, known_file: Path, known: str) -> None:
    try:
        tomllib.loads(known)
    except tomllib.TOMLDecodeError as error:
        raise MisuseError(
            f"{name!r} is in {str(known_file)!r} already: take it out there first"
        ) from error


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
