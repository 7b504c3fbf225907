from __future__ import annotations

import pytest

from topology.addresses import endpoint_fault, names_a_host


@pytest.mark.parametrize("text", ["localhost", "a.b-c", "127.0.0.1", "[::1]", "host_1"])
def test_a_host_is_a_name_or_an_address(text):
    assert names_a_host(text)


@pytest.mark.parametrize("text", ["", "256.0.0.1", "1.2.3", "::1", "[::1", "[nonsense]", "a..b"])
def test_what_looks_like_an_address_must_be_one(text):
    assert not names_a_host(text)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        7,
        None,
        "tcp://",
        "127.0.0.1:17100",
        "udp://127.0.0.1:17100",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://:17100",
        "tcp://*:17100",
        "tcp://127.0.0.1:port",
        "tcp://127.0.0.1:17100 ",
        "tcp://127.0.0.1:17100\n",
        "tcp://::1:17100",
        "tcp://[::1:17100",
        "tcp://[zz]:17100",
        "tcp://256.0.0.1:17100",
        "tcp://a..b:17100",
        "tcp://h:\u0661\u0662",
        "tcp://h:-1",
    ],
)
def test_a_bad_endpoint_is_refused(endpoint):
    fault = endpoint_fault(endpoint)
    assert fault is not None
    assert fault[0].startswith(repr(endpoint))
    assert "tcp://HOST:PORT" in fault[1]


@pytest.mark.parametrize(
    ("port_max", "port"), [(65_534, 0), (65_534, 65_535), (65_535, 65_536), (65_535, 99_999)]
)
def test_a_port_out_of_range_is_refused(port_max, port):
    fault = endpoint_fault(f"tcp://127.0.0.1:{port}", port_max)
    assert fault == (f"port {port} is out of range", f"1 to {port_max}")


@pytest.mark.parametrize("host", ["127.0.0.1", "node-b.example", "localhost", "[::1]"])
def test_a_good_endpoint_has_no_fault(host):
    assert endpoint_fault(f"tcp://{host}:1") is None
