from __future__ import annotations

from dafka.schemas.errors import RegistryError, no_subject


def test_the_status_is_the_first_three_digits_of_a_code():
    assert no_subject("a").status == 404
    assert RegistryError(409, "incompatible").status == 409
    assert RegistryError(50001, "later").retriable
    assert not no_subject("a").retriable
