import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.records.envelope import ENVELOPE_BYTES, FRESH, Envelope, pack, stamped, unpack
from dafka.testing.strategies import envelopes


@given(envelopes, st.binary(max_size=50))
def test_envelopes_survive(envelope, batch):
    assert len(pack(envelope)) == ENVELOPE_BYTES
    assert unpack(pack(envelope) + batch) == envelope


def test_literal_bytes():
    fields = bytes.fromhex("DAF5 01 00 0003 0102 8000000000000005")
    octets = pack(Envelope(origin=0x0102, copy_flags=1 << 63 | 5, epoch=3))
    assert octets[:16] == fields


def test_the_checksum_is_crc32c():
    # Bit by bit, so that it does not lean on the library it checks.
    octets = pack(Envelope(7, 5, 0))
    crc = 0xFFFFFFFF
    for octet in octets[:16]:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    assert octets[16:] == (crc ^ 0xFFFFFFFF).to_bytes(4, "big")


@pytest.mark.parametrize("envelope", [FRESH, Envelope(7, 5, 1)])
def test_every_single_byte_corruption_is_refused(envelope):
    octets = pack(envelope)
    for position in range(ENVELOPE_BYTES):
        for difference in range(1, 256):
            damaged = bytearray(octets)
            damaged[position] ^= difference
            assert unpack(bytes(damaged)) is None


@pytest.mark.parametrize("size", range(ENVELOPE_BYTES))
def test_half_an_envelope_is_none(size):
    assert unpack(pack(FRESH)[:size]) is None


@given(envelopes, envelopes, st.binary(max_size=100))
def test_stamping_changes_twenty_bytes_only(before, after, batch):
    content = stamped(pack(before) + batch, after)
    assert unpack(content) == after
    assert content[ENVELOPE_BYTES:] == batch
