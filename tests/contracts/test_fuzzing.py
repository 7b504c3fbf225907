"""Captured messages and beacons, mutated: a decoder refuses with `WireError` or understands.

`pytest tests/contracts/test_fuzzing.py --fuzz-cases 200000` is the long run.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from dafka.errors import WireError
from dafka.wire import libdafka, rfc46
from dafka.wire.beacon import decode_node_beacon, decode_tower_beacon

VECTORS = Path(__file__).parents[1] / "dafka/wire/dafka-vectors.json"
CAPTURED = [
    (one["type"], [bytes.fromhex(frame) for frame in one["frames"]])
    for one in json.loads(VECTORS.read_text())
]
MESSAGES = [frames for kind, frames in CAPTURED if "-BEACON" not in kind and kind[0] not in "TX"]

SEEDS = {
    libdafka.decode: MESSAGES,
    rfc46.decode: [
        rfc46.encode(libdafka.decode(frames)) for frames in MESSAGES if frames[0][:1] != b"K"
    ],
    decode_node_beacon: [frames for kind, frames in CAPTURED if kind == "NODE-BEACON"],
    decode_tower_beacon: [frames for kind, frames in CAPTURED if kind.startswith("TOWER")],
}


@pytest.mark.parametrize("decode", SEEDS, ids=lambda one: f"{one.__module__}.{one.__name__}")
@pytest.mark.timeout(1_200)
def test_mutated_bytes_raise_nothing_else(decode, pytestconfig):
    chance = random.Random(46)
    understood = refused = 0
    for _ in range(pytestconfig.getoption("--fuzz-cases")):
        frames = [bytearray(frame) for frame in chance.choice(SEEDS[decode])]
        for _ in range(chance.randint(1, 4)):
            mutate(chance, frames)
        try:
            decode([bytes(frame) for frame in frames])
        except WireError:
            refused += 1
        else:
            understood += 1
    assert understood
    assert refused


def mutate(chance, frames):
    frame = chance.choice(frames) if frames else bytearray()
    match chance.randrange(6):
        case 0 | 1 if frame:
            frame[chance.randrange(len(frame))] = chance.randrange(256)
        case 2 if frame:
            del frame[chance.randrange(len(frame)) :]
        case 3:
            position = chance.randint(0, len(frame))
            frame[position:position] = chance.randbytes(chance.randint(1, 9))
        case 4:
            frames.insert(chance.randint(0, len(frames)), bytearray(chance.randbytes(5)))
        case 5 if frames:
            del frames[chance.randrange(len(frames))]
