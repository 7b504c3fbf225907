"""What one registry lacks of another, in an order in which it may be written. No IO.

For each key the latest decision holds (`dafka.schemas.state`), so writing what is lacking twice, or
only a part of it, or from two places, leaves nothing wrong behind.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.schemas.entries import PrimaryKey, Schema, SchemaKey, Version, VersionKey
from distributor.schemas.translation import UntranslatableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dafka.schemas.entries import Entry, Key
    from dafka.schemas.state import State
    from distributor.schemas.translation import Translation


@dataclass(frozen=True, slots=True)
class Lack:
    """What has to be written, and what cannot be.

    Attributes:
        entries: As the one that lacks them writes them: who the primary is, then each schema behind
            what it uses, each version behind its schema.
        skipped: How many entries cannot be written, by reason.
    """

    entries: tuple[Entry, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)


def lacking(ahead: State, behind: State, translation: Translation) -> Lack:
    """Return what `behind` lacks of `ahead`.

    Args:
        ahead: In the spelling of the translation's source.
        behind: In the spelling of its target.
        translation: Between the two.
    """
    translated: dict[Key, Entry] = {}
    skipped: Counter[str] = Counter()
    for key, entry in ahead.entries.items():
        try:
            translated[key] = translation.entry(entry)
        except UntranslatableError as error:
            skipped[error.reason] += 1
            continue
        if _is_taken(translated[key], behind):
            skipped["id taken"] += 1
            del translated[key]
    for key in [key for key, one in translated.items() if _schemaless(one, translated)]:
        skipped["no schema"] += 1
        del translated[key]
    wanted = {key: entry for key, entry in translated.items() if _is_news(entry, behind)}
    return Lack(tuple(wanted[key] for key in _ordered(ahead) if key in wanted), dict(skipped))


def _is_news(entry: Entry, behind: State) -> bool:
    known = behind.entries.get(entry.key)
    if known is None or known.stamp != entry.stamp:
        return known is None or known.stamp < entry.stamp
    return known != entry and known.rank() < entry.rank()


def _is_taken(entry: Entry, behind: State) -> bool:
    """Whether its id means another schema there: two clusters have given ids under one number."""
    if not isinstance(entry.key, SchemaKey) or not isinstance(entry.value, Schema):
        return False
    known = behind.schema(entry.key.id)
    if known is None or known == entry.value:
        return False
    return known.identity() != entry.value.identity()


def _schemaless(entry: Entry, translated: Mapping[Key, Entry]) -> bool:
    """Whether it is a version whose schema cannot be written."""
    if not isinstance(entry.value, Version):
        return False
    schema = translated.get(SchemaKey(entry.value.id))
    return schema is None or schema.value is None


def _ordered(state: State) -> Iterator[Key]:
    """Yield all keys, each behind those it needs, the rest as decided.

    Not recursive: nobody vouches for how long a chain of references in a log is.
    """
    by_stamp = sorted(state.entries.values(), key=lambda entry: entry.stamp, reverse=True)
    waiting = [entry.key for entry in by_stamp]
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
