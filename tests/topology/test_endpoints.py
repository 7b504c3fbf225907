import pytest

from topology.endpoints import endpoint_fault


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
