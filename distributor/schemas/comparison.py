"""What one registry lacks of another, in an order in which it may be written. No IO.

For each key the latest decision holds (`dafka.schemas.state`), so writing what is lacking twice, or
only a part of it, or from two places, leaves nothing wrong behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.schemas.entries import PrimaryKey, Schema, SchemaKey, Version, VersionKey
from distributor.schemas.translation import UntranslatableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dafka.schemas.entries import Key, SchemaEntry
    from dafka.schemas.state import State
    from distributor.schemas.translation import Translation


@dataclass(frozen=True, slots=True)
class Lack:
    """What has to be written, and what cannot be.

    Attributes:
        entries: As the one that lacks them writes them: who the primary is, then each schema behind
            what it uses, each version behind its schema.
        skipped: Which entries cannot be written, and why.
    """

    entries: tuple[SchemaEntry, ...] = ()
    skipped: Mapping[Key, str] = field(default_factory=dict)


def lacking(
    ahead: State, behind: State, translation: Translation, keys: Iterable[Key] | None = None
) -> Lack:
    """Return what `behind` lacks of `ahead`.

    Args:
        ahead: In the spelling of the translation's source.
        behind: In the spelling of its target.
        translation: Between the two.
        keys: Of `ahead`, those to look at; all by default.
    """
    wanted: dict[Key, SchemaEntry] = {}
    skipped: dict[Key, str] = {}
    for key in ahead.entries if keys is None else keys:
        try:
            entry = _translated(ahead, key, behind, translation)
        except UntranslatableError as error:
            skipped[key] = error.reason
            continue
        if _is_news(entry, behind):
            wanted[key] = entry
    order = (wanted[key] for key in _ordered(ahead, wanted) if key in wanted)
    return Lack(tuple(order), skipped)


def _translated(ahead: State, key: Key, behind: State, translation: Translation) -> SchemaEntry:
    """Return an entry as the other one writes it.

    Raises:
        UntranslatableError: Its names cannot be spelled there; `id taken`, its id means another
            schema there; `no schema`, its schema is unknown or cannot be written either.
    """
    entry = ahead.entries[key]
    translated = translation.entry(entry)
    if isinstance(entry.value, Version):
        _check_schema(ahead, entry.value.id, behind, translation)
    elif _is_taken(translated, behind):
        raise UntranslatableError("id taken", str(key))
    return translated


def _check_schema(ahead: State, id_: int, behind: State, translation: Translation) -> None:
    if ahead.schema(id_) is None:
        raise UntranslatableError("no schema", f"id {id_}")
    try:
        _translated(ahead, SchemaKey(id_), behind, translation)
    except UntranslatableError as error:
        raise UntranslatableError("no schema", f"id {id_}") from error


def _is_news(entry: SchemaEntry, behind: State) -> bool:
    known = behind.entries.get(entry.key)
    if known is None or known.stamp != entry.stamp:
        return known is None or known.stamp < entry.stamp
    return known != entry and known.rank() < entry.rank()


def _is_taken(entry: SchemaEntry, behind: State) -> bool:
    """Whether its id means another schema there: two clusters have given ids under one number."""
    if not isinstance(entry.key, SchemaKey) or not isinstance(entry.value, Schema):
        return False
    known = behind.schema(entry.key.id)
    if known is None or known == entry.value:
        return False
    return known.identity() != entry.value.identity()


def _ordered(state: State, keys: Iterable[Key]) -> Iterator[Key]:
    """Yield keys, each behind those it needs, which may be further ones, the rest as decided.

    Not recursive: nobody vouches for how long a chain of references in a log is.
    """
    waiting = sorted(keys, key=lambda key: state.entries[key].stamp, reverse=True)
    waiting.append(PrimaryKey())
    begun: set[Key] = set()
    done: set[Key] = set()
    while waiting:
        key = waiting[-1]
        needed = [one for one in _needs(state, key) if one not in begun]
        if needed and key not in begun:
            begun.add(key)
            waiting += needed
            continue
        waiting.pop()
        begun.add(key)
        if key not in done:
            done.add(key)
            yield key


def _needs(state: State, key: Key) -> list[Key]:
    entry = state.entries.get(key)
    match entry.value if entry is not None else None:
        case Version(id_):
            return [SchemaKey(id_)]
        case Schema(references=references):
            return [VersionKey(one.subject, one.version) for one in references]
        case _:
            return []
