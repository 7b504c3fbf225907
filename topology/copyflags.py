"""Copy flags: one bit per tree level, set when a record has crossed it.

A distributor of level L looks at bits 1 to L. If none is set it copies the record across its level
and sets bit L. So a record's levels strictly fall along its way, and no labelling of the tree,
however wrong, can make a loop. Source: Axual distribution model, "Copy flags and algorithm".
"""

LEVEL_MAX = 63
"""The envelope keeps 64 flags; 63 levels keep every mask a signed 64-bit number too."""

EVERY_FLAG = (1 << 64) - 1
"""The flags of a copy that was pulled: it stays where it is, whoever else lacks it pulls it too."""


def bit(level: int) -> int:
    """The flag of a level: bit level - 1."""
    return 1 << (level - 1)


def mask(level: int) -> int:
    """The flags a distributor of this level looks at: its own and all lower ones."""
    return (1 << level) - 1


def should_forward(flags: int, level: int) -> bool:
    """Whether a record with these flags is yet to cross this level."""
    return flags & mask(level) == 0


def in_epoch(flags: int, epoch: int, current: int) -> int:
    """What flags of an epoch say in the current one.

    Levels mean other branches in another epoch, so its flags say only that the record was copied
    then; whose duty was left, the change of the epoch has waited for.
    """
    return flags if epoch == current or not flags else EVERY_FLAG


def with_copied(flags: int, level: int) -> int:
    """The flags of the copy."""
    return flags | bit(level)


def levels_of(flags: int) -> list[int]:
    """The levels whose flags are set, lowest first."""
    return [level for level in range(1, flags.bit_length() + 1) if flags & bit(level)]


def format_flags(flags: int, top_level: int = 4) -> str:
    """Flags in binary, as the distribution model writes them.

    Args:
        flags: What to write.
        top_level: Highest level of the tree; a digit for each level, and at least four.
    """
    return f"{flags:0{max(4, top_level)}b}"
