"""What a hostile or broken peer sends: real frames, mutated.

Two sources of the same edits: a seeded generator, which makes some hundred thousand a second, and a
Hypothesis strategy, which is slower and shrinks what it finds to the edits that matter.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

EDITS_MAX = 4
"""More make noise that every decoder refuses at its first byte."""

TELLING = (
    b"\0",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x7f" + b"\xff" * 7,
    b"\x80" + b"\0" * 7,
    b"\xff" * 8,
    b"\xff" * 16,
    b"9" * 40,
    b"[" * 200,
    b"{",
    b"}",
    b"]",
    b'"',
    b"'",
    b"null",
    b"-1",
    b"1e999",
    b"NaN",
    b"true",
    b"\\ud800",
    b"\n",
    b"\n  - ",
    b": ",
    b"&a [*a]",
    b"\xed\xa0\x80",
    b"\x1b[2J",
)
"""Where decoders break: the ends of number ranges, what opens and closes, text that is none."""


class MutationKind(Enum):
    """What an edit does to a frame, or to the list of them."""

    OVERWRITE = "overwrite"
    INSERT = "insert"
    CUT = "cut"
    REMOVE = "remove"
    REPEAT = "repeat"
    ADD_FRAME = "add frame"
    DROP_FRAME = "drop frame"
    SWAP_FRAMES = "swap frames"


class Edit(NamedTuple):
    """One change; numbers that are too large are taken modulo what there is.

    Attributes:
        kind: Which change.
        frame: Of which frame.
        position: Where in it.
        octets: What to write there.
    """

    kind: MutationKind
    frame: int
    position: int
    octets: bytes


def edited(frames: Sequence[bytes], edits: Sequence[Edit]) -> list[bytes]:
    """Return `frames` after `edits`, made in order."""
    result = list(frames)
    for edit in edits:
        _edit(result, edit)
    return result


def random_edits(chance: Random) -> list[Edit]:
    """Draw some edits."""
    return [
        Edit(
            chance.choice(_KINDS),
            chance.randrange(8),
            chance.randrange(1 << 16),
            chance.choice(TELLING)
            if chance.random() < 0.5
            else chance.randbytes(chance.choice((1, 1, 1, 4, 9))),
        )
        for _ in range(chance.randint(1, EDITS_MAX))
    ]


_KINDS = (
    *MutationKind,
    MutationKind.OVERWRITE,
    MutationKind.OVERWRITE,
    MutationKind.OVERWRITE,
    MutationKind.INSERT,
)
"""Overwriting keeps lengths, so it comes deepest into a decoder: it is drawn more often."""

edits = st.lists(
    st.builds(
        Edit,
        st.sampled_from(_KINDS),
        st.integers(0, 7),
        st.integers(0, (1 << 16) - 1),
        st.sampled_from(TELLING) | st.binary(min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=EDITS_MAX,
)


def _edit(frames: list[bytes], edit: Edit) -> None:
    if edit.kind is MutationKind.ADD_FRAME:
        frames.insert(edit.frame % (len(frames) + 1), edit.octets)
        return
    if not frames:
        return
    index = edit.frame % len(frames)
    if edit.kind is MutationKind.DROP_FRAME:
        del frames[index]
    elif edit.kind is MutationKind.SWAP_FRAMES:
        other = edit.position % len(frames)
        frames[index], frames[other] = frames[other], frames[index]
    else:
        frames[index] = _within(frames[index], edit)


def _within(frame: bytes, edit: Edit) -> bytes:
    """The frame after an edit that concerns it alone."""
    position = edit.position % (len(frame) + 1)
    before, behind, size = frame[:position], frame[position:], len(edit.octets)
    match edit.kind:
        case MutationKind.OVERWRITE:
            return before + edit.octets[: len(behind)] + behind[size:]
        case MutationKind.INSERT:
            return before + edit.octets + behind
        case MutationKind.CUT:
            return before
        case MutationKind.REMOVE:
            return before + behind[size:]
        case _:
            return before + behind[:64] + behind
