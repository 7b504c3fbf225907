from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.request
from contextlib import suppress

import pytest

from dafka.errors import MisuseError
from dafka.process import health as module
from dafka.process import metrics
from dafka.process.health import Health, serve_health
from dafka.process.web_access import load_web_access
from tests.support.certificates import write_web

pytestmark = pytest.mark.net


class Patient:
    def __init__(self, unwell="", unready=""):
        self._unwell = unwell
        self._unready = unready

    def join(self, timeout):
        return False

    def unwell(self):
        return self._unwell

    def unready(self):
        return self._unready


def get(port, page, host="127.0.0.1"):
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{page}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def serve(free_ports):
    """A function that serves a health and returns what asks for a page."""

    def serve(health):
        port = free_ports(1)
        serve_health(f"127.0.0.1:{port}", health)
        return lambda page: get(port, page)

    return serve


def test_metrics_are_served(serve):
    metrics.traffic("served", "in")
    status, text = serve(Health())("/metrics")
    assert status == 200
    assert 'dafka_batches_total{direction="in",role="served"}' in text


def test_what_starts_is_well_and_not_ready(serve):
    page = serve(Health())
    assert page("/health") == (200, "ok\n")
    assert page("/ready") == (503, "starting\n")


def test_what_runs_is_well_and_ready(serve):
    health = Health()
    health.watch(Patient(), Patient())
    page = serve(health)
    assert page("/health") == (200, "ok\n")
    assert page("/ready") == (200, "ok\n")


def test_every_reason_is_a_line(serve):
    health = Health()
    health.watch(Patient(unwell="a is stuck"), Patient(unready="no tower \udcff"))
    page = serve(health)
    assert page("/health") == (503, "a is stuck\n")
    assert page("/ready") == (503, "a is stuck\nno tower ?\n")


def failing(error):
    def page(_asked):
        raise error

    return page


def test_a_process_may_have_more_pages(serve):
    health = Health()
    page = serve(health)
    health.show(
        {
            "/groups": lambda asked: {"asked": asked},
            "/wrong": failing(ValueError("no topic 'x'")),
            "/late": failing(TimeoutError()),
        }
    )
    assert page("/groups?group=a%20b&x=1") == (200, '{"asked": {"group": "a b", "x": "1"}}\n')
    assert page("/groups?" + "a=1&" * 50)[0] == 400
    assert page("/wrong") == (400, '{"error": "no topic \'x\'"}\n')
    assert page("/late") == (503, '{"error": "no answer in time"}\n')
    assert page("/health") == (200, "ok\n")


def test_a_client_that_says_nothing_holds_up_nobody_and_is_cut_off(free_ports, monkeypatch):
    monkeypatch.setattr(module._Handler, "timeout", 0.2)
    port = free_ports(1)
    serve_health(f"127.0.0.1:{port}", Health())
    with socket.create_connection(("127.0.0.1", port)) as silent:
        assert get(port, "/health")[0] == 200
        silent.settimeout(5)
        assert silent.recv(1) == b""


def test_garbage_is_answered_and_survived(free_ports, capfd):
    port = free_ports(1)
    serve_health(f"127.0.0.1:{port}", Health())
    for garbage in (b"\xff\xfe\r\n\r\n", b"GET\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 70_000):
        with socket.create_connection(("127.0.0.1", port)) as vandal:
            vandal.sendall(garbage)
    assert get(port, "/health")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 on this machine")
def test_it_serves_on_ipv6(free_ports):
    port = free_ports(1)
    try:
        serve_health(f"[::1]:{port}", Health())
    except MisuseError as error:
        pytest.skip(f"IPv6 is off on this machine: {error}")
    assert get(port, "/health", "[::1]")[0] == 200


def test_a_port_that_is_taken_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MisuseError, match=f"cannot serve metrics at 127.0.0.1:{port}"):
            serve_health(f"127.0.0.1:{port}", Health())


@pytest.mark.parametrize("port", [-1, 65_536, 1 << 40])
def test_a_port_that_does_not_exist_is_refused(port):
    with pytest.raises(MisuseError, match="cannot serve metrics"):
        serve_health(f"127.0.0.1:{port}", Health())


def test_a_host_of_another_machine_is_refused(free_ports):
    with pytest.raises(MisuseError, match="cannot serve metrics"):
        serve_health(f"192.0.2.1:{free_ports(1)}", Health())


@pytest.fixture
def closed(free_ports, tmp_path):
    """A function that serves a health to whom a file lets in: what asks for a page, the tokens."""

    def closed(health, *, tls=False, **settings):
        file, tokens = write_web(tmp_path, tls=tls, prom=["metrics"], shop=["schemas"])
        port = free_ports(1)
        serve_health(f"127.0.0.1:{port}", health, load_web_access(file), **settings)
        trusted = ssl.create_default_context(cafile=tmp_path / "web.crt") if tls else None
        scheme = "https" if tls else "http"

        def ask(page, token=None):
            request = urllib.request.Request(f"{scheme}://127.0.0.1:{port}{page}")
            if token:
                request.add_header("Authorization", f"Bearer {token}")
            try:
                with urllib.request.urlopen(request, timeout=60, context=trusted) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        return ask, tokens, port

    return closed


@pytest.mark.parametrize("tls", [False, True])
def test_only_who_has_the_right_reads_metrics_and_reasons(closed, tls):
    health = Health()
    health.watch(Patient(unwell="a is stuck"))
    ask, tokens, _ = closed(health, tls=tls)
    assert ask("/metrics")[0] == 401
    assert ask("/metrics", "made up")[0] == 401
    assert ask("/metrics", tokens["shop"])[0] == 403
    status, text = ask("/metrics", tokens["prom"])
    assert status == 200
    assert "dafka_records_total" in text
    assert ask("/anything")[0] == 401
    health.show({"/groups": lambda _: {}})
    assert ask("/groups")[0] == 401
    assert ask("/groups", tokens["shop"])[0] == 403
    assert ask("/groups", tokens["prom"]) == (200, "{}\n")
    assert ask("/health") == (503, "no\n"), "who restarts it needs to know no more"
    assert ask("/health", "made up") == (503, "no\n")
    assert ask("/health", tokens["prom"]) == (503, "a is stuck\n")
    health.watch(Patient())
    assert ask("/ready") == (200, "ok\n")


def test_a_client_that_shakes_no_hand_holds_up_nobody(closed):
    ask, tokens, port = closed(Health(), tls=True, silence_s=0.2)
    with socket.create_connection(("127.0.0.1", port)) as silent:
        assert ask("/metrics", tokens["prom"])[0] == 200
        silent.settimeout(5)
        assert silent.recv(1) == b""
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        plain.settimeout(5)
        with suppress(ConnectionResetError):
            assert not plain.recv(100).startswith(b"HTTP")
    assert ask("/metrics", tokens["prom"])[0] == 200
