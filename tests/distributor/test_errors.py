from __future__ import annotations

import pytest

from dafka.errors import DafkaError
from distributor import errors


@pytest.mark.parametrize("name", ["PlanError", "ProcessError", "DataSetError"])
def test_every_error_is_the_distributors(name):
    kind = getattr(errors, name)
    assert issubclass(kind, errors.DistributorError)
    assert kind.__doc__
    assert str(kind("reason")) == "reason"


def test_no_error_is_dafkas():
    assert not issubclass(errors.DistributorError, DafkaError)
