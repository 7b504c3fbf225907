"""Which of a topic's partitions a row goes to: as clients of Kafka choose, so that both agree.

The number of a key is Kafka's murmur2, without its sign, modulo the number of partitions: what
Kafka's own default partitioner does. Source: KIP-480, and `Utils.murmur2` of Kafka's clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Words = NDArray[np.uint32]

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_WORD = 4
_POSITIVE = 0x7FFF_FFFF
_ALL = 0xFFFF_FFFF

_LONG = 1_024
"""Octets of a key from which on it is hashed by itself: word by word with all others costs a look
at all of them for each word."""


def key_numbers(keys: pa.Array, partitions: int) -> Numbers:
    """Return the number of each key; -1 of a row that has none.

    Args:
        keys: Octets.
        partitions: How many there are.
    """
    hashes = _murmur2(keys) & np.uint32(_POSITIVE)
    numbers = (hashes % np.uint32(partitions)).astype(np.int64)
    if keys.null_count:
        numbers[keys.is_null().to_numpy(zero_copy_only=False)] = -1
    return numbers


def _murmur2(keys: pa.Array) -> Words:
    """The hash of each key; of a row that has none it means nothing."""
    rows = len(keys)
    _, places, content = keys.buffers()
    bounds = np.frombuffer(places, np.int32, rows + 1, offset=keys.offset * _WORD).astype(np.int64)
    # Some octets behind the last key, so that a word can be read anywhere.
    held = b"" if content is None else memoryview(content)[bounds[0] : bounds[-1]]
    octets = np.frombuffer(b"".join((held, bytes(_WORD))), np.uint8)
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
    words = np.ndarray((len(octets) - _WORD + 1,), "<u4", octets, strides=(1,))
    short = np.where(lengths < _LONG, lengths, 0)
    # The longest first: those that have another word are always the first ones.
    order = np.argsort(-short, kind="stable")
    starts, short = starts[order], short[order]
    hashes = np.uint32(_SEED) ^ short.astype(np.uint32)
    most = int(short[0]) // _WORD if rows else 0
    having = np.searchsorted(-(short // _WORD), -np.arange(1, most + 1), side="right")
    for number, count in enumerate(having):
        mixed = _mixed(words[starts[:count] + number * _WORD])
        hashes[:count] = (hashes[:count] * np.uint32(_FACTOR)) ^ mixed
    left = (short % _WORD).astype(np.uint32)
    tails = words[starts + short - left] & ((np.uint32(1) << (left * np.uint32(8))) - np.uint32(1))
    hashes = np.where(left > 0, (hashes ^ tails) * np.uint32(_FACTOR), hashes)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(_FACTOR)
    found = np.empty(rows, np.uint32)
    found[order] = hashes ^ (hashes >> np.uint32(15))
    for row in np.flatnonzero(lengths >= _LONG):
        found[row] = _of_one(octets[bounds[row] - bounds[0] : bounds[row + 1] - bounds[0]])
    return found


def _mixed(words: Words) -> Words:
    words = words * np.uint32(_FACTOR)
    return (words ^ (words >> np.uint32(24))) * np.uint32(_FACTOR)


def _of_one(key: NDArray[np.uint8]) -> int:
    """The hash of a key: what does not depend on the words before is done for all words at once."""
    end = len(key) // _WORD * _WORD
    found = _SEED ^ len(key)
    for word in _mixed(key[:end].view("<u4")).tolist():
        found = (found * _FACTOR & _ALL) ^ word
    if end < len(key):
        found = (found ^ int.from_bytes(key[end:].tobytes(), "little")) * _FACTOR & _ALL
    found = (found ^ found >> 13) * _FACTOR & _ALL
    return found ^ found >> 15
