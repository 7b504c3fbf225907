import pytest

from topology.hosts import names_a_host


@pytest.mark.parametrize("text", ["localhost", "a.b-c", "127.0.0.1", "[::1]", "host_1"])
def test_a_host_is_a_name_or_an_address(text):
    assert names_a_host(text)


@pytest.mark.parametrize("text", ["", "256.0.0.1", "1.2.3", "::1", "[::1", "[nonsense]", "a..b"])
def test_what_looks_like_an_address_must_be_one(text):
    assert not names_a_host(text)
