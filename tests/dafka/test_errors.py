"""Errors say whose fault it is, and whether trying again may help."""

from __future__ import annotations

import pytest

from dafka import errors
from dafka.errors import RegistryError, no_subject


def test_every_error_has_one_base():
    for name, value in vars(errors).items():
        if isinstance(value, type) and not issubclass(value, Warning):
            assert issubclass(value, errors.DafkaError), name


@pytest.mark.parametrize(
    ("error", "retriable"),
    [
        (errors.MisuseError, False),
        (errors.StorageError, False),
        (errors.QueryError, True),
        (errors.BufferFullError, True),
        (errors.NotStoredError, True),
    ],
)
def test_a_caller_can_tell_whether_trying_again_may_help(error, retriable):
    assert error.retriable is retriable


@pytest.mark.parametrize("error", [errors.WireError, errors.RecordError])
def test_what_a_peer_did_wrong_has_a_reason_to_count_it_by(error):
    raised = error("batch checksum")
    assert raised.reason == "batch checksum"
    assert "batch checksum" in str(raised)


def test_the_status_is_the_first_three_digits_of_a_code():
    assert no_subject("a").status == 404
    assert RegistryError(409, "incompatible").status == 409
    assert RegistryError(50001, "later").retriable
    assert not no_subject("a").retriable
