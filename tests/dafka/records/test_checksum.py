from __future__ import annotations

import pytest

from dafka.records.checksum import crc32c


@pytest.mark.parametrize(
    ("octets", "checksum"),
    [  # the first four of RFC 3720, B.4
        (bytes(32), 0x8A9136AA),
        (bytes([255]) * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"", 0),
    ],
)
def test_it_is_the_castagnoli_polynomials(octets, checksum):
    assert crc32c(octets) == checksum
