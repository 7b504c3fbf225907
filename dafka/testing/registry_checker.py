"""Judges what clients of a cluster's registries saw. Pure.

| name | what must never be |
|---|---|
| S1 two-meanings | one id that is told with two schemas |
| S2 changed-version | a version, told by who registered it, that is another schema later |
| S3 lost-registration | an acknowledged registration that a registry does not have in the end |
| S4 phantom | a version that nobody asked for, or that everybody who did was refused |
| S5 undeleted | a version that is there again after its deletion was acknowledged |
| S6 stale-setting | a level or mode that another one, acknowledged since, had replaced |
| S7 not-obeyed | a decision that the mode, or who the primary is, forbade |
| S8 registries-differ | in the end, registries tell different things |
| S9 dangling | in the end, a version whose schema nobody has |

A call that got no answer, or an error of the registry (5xx), may have happened or not, also much
later. Decisions see whatever was acknowledged before they were asked for, by whichever registry;
questions what that one registry has told before: they take what one store has.

A subject of which versions are deleted for good begins anew, so S2 and S3 say nothing of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from dafka.schemas.compatibility import DEFAULT_LEVEL
from dafka.testing.registry_nodes import Call, ClientRequest, RequestKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dafka.testing.registry_nodes import Reading, ToldVersion

SETTINGS = (RequestKind.SET_LEVEL, RequestKind.SET_MODE, RequestKind.PROMOTE)
DELETIONS = (RequestKind.DELETE, RequestKind.DELETE_FOR_GOOD)
DECISIONS = (RequestKind.REGISTER, *DELETIONS)
"""Those that a mode and a primary forbid."""


def check_calls(calls: Sequence[Call], last: Sequence[Call], home: str) -> list[str]:
    """Return everything that is wrong.

    Args:
        calls: Of all clients, in the order in which they were asked for.
        last: Questions of every subject to every registry, when all had come to rest.
        home: The cluster that is the primary at first.
    """
    return [*_Calls(calls, last, home).problems()]


class _Calls:
    def __init__(self, calls: Sequence[Call], last: Sequence[Call], home: str) -> None:
        self.calls = calls
        self.last = last
        self.by_ask: dict[tuple[RequestKind, str], list[Call]] = defaultdict(list)
        """Those that may have happened."""
        for call in calls:
            if not call.refused:
                self.by_ask[call.ask.action, call.ask.subject].append(call)
        self.emptied = {one.ask.subject for one in calls if one.ask.action is DELETIONS[1]}
        self.before = {
            RequestKind.SET_LEVEL: DEFAULT_LEVEL,
            RequestKind.SET_MODE: "READWRITE",
            RequestKind.PROMOTE: home,
        }
        self.told: dict[str, dict[int, ToldVersion]] = {}
        """By subject, the versions that those who registered them were told of."""

    def problems(self) -> Iterator[str]:
        yield from self.ids()
        yield from self.versions()
        for call in (*self.calls, *self.last):
            if call.reading is not None:
                yield from self.asked_for(call, call.reading)
                yield from self.deleted(call, call.reading)
                yield from self.settings(call, call.reading)
            elif call in self.last and call.refused:
                yield f"S9 dangling: {_what(call)} was answered with {call.code}"
            if call.done and call.ask.action in DECISIONS:
                yield from self.obeyed(call)
        yield from self.lost()
        yield from self.differ()

    def ids(self) -> Iterator[str]:
        texts: dict[int, str] = {}
        for call in (*self.calls, *self.last):
            held = call.reading.versions.values() if call.reading is not None else ()
            pairs = [(one.id, one.text) for one in held]
            if call.done and call.ask.action is RequestKind.REGISTER:
                pairs.append((call.id, call.ask.word))
            for id_, text in pairs:
                if texts.setdefault(id_, text) != text:
                    yield f"S1 two-meanings: id {id_} is {texts[id_]} and {text}, by {_what(call)}"

    def versions(self) -> Iterator[str]:
        for call in self.calls:
            if not call.done or call.ask.action is not RequestKind.REGISTER or call.reading is None:
                continue
            held = self.told.setdefault(call.ask.subject, {})
            for number, one in call.reading.versions.items():
                if one.id == call.id:
                    before = held.setdefault(number, one)
                    if before.id != one.id and call.ask.subject not in self.emptied:
                        yield f"S2 changed-version: {number} was {before}, {_what(call)}: {one}"
        for call in self.last:
            for number, one in self.told.get(call.ask.subject, {}).items():
                now = call.reading.versions.get(number) if call.reading is not None else None
                if now is not None and now.id != one.id and call.ask.subject not in self.emptied:
                    yield f"S2 changed-version: {number} was {one}, {_what(call)}: {now}"

    def asked_for(self, call: Call, reading: Reading) -> Iterator[str]:
        asked = {
            one.ask.word
            for one in self.by_ask[RequestKind.REGISTER, call.ask.subject]
            if one.began_ms <= _end(call)
        }
        for number, held in reading.versions.items():
            if held.text not in asked:
                yield f"S4 phantom: version {number} is {held}, by {_what(call)}"

    def deleted(self, call: Call, reading: Reading) -> Iterator[str]:
        if call.ask.subject in self.emptied:
            return
        for deletion in self.by_ask[RequestKind.DELETE, call.ask.subject]:
            held = reading.versions.get(int(deletion.ask.word))
            if held is not None and held.live and self.known(deletion, call):
                yield f"S5 undeleted: version {deletion.ask.word} is {held}, by {_what(call)}"

    def settings(self, call: Call, reading: Reading) -> Iterator[str]:
        for action, word in ((SETTINGS[0], reading.level), (SETTINGS[1], reading.mode)):
            possible = self.possible(action, call.ask.subject, call, question=True)
            if word not in possible:
                yield f"S6 stale-setting: {word} by {_what(call)}, not {' or '.join(possible)}"

    def obeyed(self, call: Call) -> Iterator[str]:
        modes = self.possible(RequestKind.SET_MODE, call.ask.subject, call, question=False)
        if modes == {"READONLY"}:
            yield f"S7 not-obeyed: {_what(call)} in mode READONLY"
        primaries = self.possible(RequestKind.PROMOTE, "", call, question=False)
        # What is registered already may be asked for everywhere.
        is_there = call.ask.action is RequestKind.REGISTER and any(
            one is not call and one.ask == call.ask and one.began_ms <= _end(call)
            for one in self.by_ask[RequestKind.REGISTER, call.ask.subject]
        )
        if call.cluster not in primaries and not is_there:
            yield f"S7 not-obeyed: {_what(call)} while the primary is {' or '.join(primaries)}"

    def possible(
        self, action: RequestKind, subject: str, call: Call, *, question: bool
    ) -> set[str]:
        """What may hold for a call, by what clients know."""
        writes = [one for one in self.by_ask[action, subject] if one.began_ms <= _end(call)]
        first = Call(ClientRequest(action, subject, self.before[action]), "", "", -2, -1)
        settled = [one for one in writes if one.done and self.known(one, call, question=question)]
        return {
            one.ask.word
            for one in (first, *writes)
            if not any(_end(one) < other.began_ms for other in settled)
        }

    def known(self, earlier: Call, call: Call, *, question: bool = True) -> bool:
        """Whether what was acknowledged has to be known where a call is answered."""
        if not earlier.done or _end(earlier) >= call.began_ms:
            return False
        return not question or call in self.last or earlier.life == call.life

    def lost(self) -> Iterator[str]:
        for call in self.calls:
            subject = call.ask.subject
            if (
                not call.done
                or call.ask.action is not RequestKind.REGISTER
                or subject in self.emptied
            ):
                continue
            for one in self.last:
                told = one.ask.subject == subject and self.known(call, one)
                if not told or one.reading is None:
                    continue
                if call.id not in {held.id for held in one.reading.versions.values()}:
                    yield f"S3 lost-registration: id {call.id} of {_what(call)}, by {_what(one)}"

    def differ(self) -> Iterator[str]:
        first: dict[str, Call] = {}
        for call in self.last:
            other = first.setdefault(call.ask.subject, call)
            if call.reading != other.reading:
                yield (
                    f"S8 registries-differ: {_what(call)}: {call.reading},"
                    f" {_what(other)}: {other.reading}"
                )


def _end(call: Call) -> float:
    """When it was done at the latest."""
    return call.ended_ms if call.done and call.ended_ms is not None else math.inf


def _what(call: Call) -> str:
    action, subject, word = call.ask
    return f"[{call.began_ms} ms, {call.life}: {action.value} {subject} {word}]"


def condensed(problems: Iterable[str], each_max: int = 4) -> list[str]:
    """Return the first few of each name, and how many more there are."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for problem in problems:
        by_name[problem.partition(":")[0]].append(problem)
    lines: list[str] = []
    for name, found in by_name.items():
        lines += found[:each_max]
        if len(found) > each_max:
            lines.append(f"{name}: {len(found) - each_max} more")
    return lines
