from __future__ import annotations

import socket
import threading
from dataclasses import replace

import pytest

from dafka.errors import MisuseError
from dafka.process.files import write_secret
from dafka.process.health import Health, serve_health
from dafka.process.web_access import load_web_access
from distributor.operations.probe import probe
from tests.support.certificates import write_web
from topology.model import Web
from topology.processes import Process, ProcessKind

pytestmark = pytest.mark.net


class Patient:
    def __init__(self, unwell="", unready=""):
        self.unwell = lambda: unwell
        self.unready = lambda: unready

    def join(self, timeout):
        return False


def process(metrics):
    return Process(name="p", kind=ProcessKind.STORE, cluster="c", command=(), metrics=metrics)


@pytest.fixture
def state(free_ports):
    """A function that serves the health of a patient and returns what is found."""

    def state(patient):
        endpoint = f"127.0.0.1:{free_ports(1)}"
        health = Health()
        if patient is not None:
            health.watch(patient)
        serve_health(endpoint, health)
        (vitals,) = probe([process(endpoint)])
        assert "# HELP dafka_records_total" in vitals.exposition
        return vitals.state, vitals.reasons

    return state


def test_what_a_process_says_of_itself_is_its_state(state):
    assert state(Patient()) == ("ok", ())
    assert state(Patient(unready="no tower\nno store")) == ("not ready", ("no tower", "no store"))
    assert state(Patient(unwell="stuck", unready="no tower")) == ("unwell", ("stuck",))
    assert state(None) == ("not ready", ("starting",))


@pytest.mark.parametrize("tls", [False, True])
def test_a_process_is_asked_with_the_token_of_the_topology(free_ports, tmp_path, tls):
    file, tokens = write_web(tmp_path, tls=tls, ops=["metrics"], shop=["schemas"])
    for name, token in tokens.items():
        (tmp_path / f"{name}.token").write_text(token + "\n")
        (tmp_path / f"{name}.token").chmod(0o600)
    endpoint = f"127.0.0.1:{free_ports(1)}"
    health = Health()
    health.watch(Patient(unready="no tower"))
    serve_health(endpoint, health, load_web_access(file))
    web = Web(access="web.toml", token="ops.token", directory=str(tmp_path))
    (vitals,) = probe([replace(process(endpoint), web=web)])
    assert (vitals.state, vitals.reasons) == ("not ready", ("no tower",))
    assert "# HELP dafka_records_total" in vitals.exposition
    (vitals,) = probe([replace(process(endpoint), web=replace(web, token="shop.token"))])
    assert vitals.state == "refused"
    assert "shop's token is not good for metrics" in vitals.reasons[0]
    with pytest.raises(MisuseError, match=r"cannot read .*none\.token"):
        probe([replace(process(endpoint), web=replace(web, token="none.token"))])


def test_a_certificate_that_is_not_trusted_is_no_silence(free_ports, tmp_path):
    ours, other = tmp_path / "ours", tmp_path / "other"
    for directory in (ours, other):
        directory.mkdir()
        _, tokens = write_web(directory, tls=True, ops=["metrics"])
        write_secret(directory / "ops.token", tokens["ops"])
    endpoint = f"127.0.0.1:{free_ports(1)}"
    serve_health(endpoint, Health(), load_web_access(other / "web.toml"))
    web = Web(access="web.toml", token="ops.token", directory=str(ours))
    (vitals,) = probe([replace(process(endpoint), web=web)])
    assert vitals.state == "refused"
    assert "certificate" in vitals.reasons[0].lower()


def test_nobody_is_nobody():
    assert probe([]) == []


def test_where_no_metrics_are_served_nothing_is_known():
    (vitals,) = probe([process(None)])
    assert (vitals.state, vitals.reasons) == ("unknown", ("serves no metrics",))


def test_where_nobody_listens_there_is_no_answer(free_ports):
    endpoint = f"127.0.0.1:{free_ports(1)}"
    (vitals,) = probe([process(endpoint)])
    assert vitals.state == "no answer"
    assert endpoint in vitals.reasons[0]


def test_what_is_there_and_says_nothing_hangs():
    with socket.create_server(("127.0.0.1", 0)) as server:
        (vitals,) = probe([process(f"127.0.0.1:{server.getsockname()[1]}")], timeout_s=0.2)
    assert vitals.state == "hangs"


@pytest.mark.parametrize("says", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200\r\n"])
def test_what_does_not_speak_http_or_says_nothing_gives_no_answer(says):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.sendall(says)
                connection.recv(1_000)
                connection.recv(1_000)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        (vitals,) = probe([process(f"127.0.0.1:{server.getsockname()[1]}")], timeout_s=0.2)
        assert vitals.state == ("no answer" if b"garbage" in says else "hangs")
        thread.join(60)
