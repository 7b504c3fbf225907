from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from distributor.demo.latency import HopLatency, hop_latencies, read_hops
from topology.processes import Process, ProcessKind

pytestmark = pytest.mark.net

LINK = ("c1", "c2", "3")
LABELS = 'source="c1",target="c2",level="3"'


def exposition(counts):
    lines = ["# TYPE distributor_hop_seconds histogram"]
    lines += [
        f'distributor_hop_seconds_bucket{{{LABELS},le="{bound}"}} {count}'
        for bound, count in counts.items()
    ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def serve():
    """A function that serves a text and returns where."""
    servers = []

    def serve(text, status=200):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                if status is None:
                    self.wfile.write(b"this is not HTTP\r\n")
                    return
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                return

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def process(metrics, kind=ProcessKind.DISTRIBUTOR):
    return Process(name="n", kind=kind, cluster="c", command=(), metrics=metrics)


def test_quantiles_are_the_bounds_of_their_buckets(serve):
    text = exposition({"0.01": 49, "0.02": 50, "0.05": 98, "0.1": 99, "+Inf": 100})
    assert hop_latencies({}, read_hops([process(serve(text))])) == [
        HopLatency("c1", "c2", "3", 100, p50_s=0.02, p99_s=0.1)
    ]


def test_what_took_longer_than_the_last_bound_is_infinite():
    (hop,) = hop_latencies({}, {LINK: [(0.01, 1), (float("inf"), 100)]})
    assert hop.p99_s == float("inf")


def test_what_hopped_before_the_first_reading_counts_not():
    before = {LINK: [(0.01, 0.0), (0.02, 10.0), (float("inf"), 500.0)]}
    after = {LINK: [(0.01, 98.0), (0.02, 110.0), (float("inf"), 600.0)]}
    assert hop_latencies(before, after) == [HopLatency(*LINK, 100, p50_s=0.01, p99_s=0.02)]


def test_a_process_that_was_started_again_counts_from_nothing():
    before, after = [(0.01, 5.0), (float("inf"), 9.0)], [(0.01, 4.0), (float("inf"), 4.0)]
    (hop,) = hop_latencies({LINK: before}, {LINK: after})
    assert (hop.batches, hop.p50_s) == (4, 0.01)


@pytest.mark.parametrize("count", [0.0, 7.0])
def test_a_link_of_which_nothing_hopped_is_left_out(count):
    told = {LINK: [(0.01, count), (float("inf"), count)]}
    assert hop_latencies(told, told) == []


def test_what_replicas_have_copied_of_a_link_adds_up(serve):
    places = [serve(exposition({"0.01": count, "+Inf": 50})) for count in (50, 0)]
    assert hop_latencies(
        {}, read_hops([process(place, ProcessKind.REPLICA) for place in places])
    ) == [HopLatency("c1", "c2", "3", 100, p50_s=0.01, p99_s=float("inf"))]


def test_only_who_copies_and_has_metrics_is_asked(serve):
    endpoint = serve(exposition({"+Inf": 1}))
    assert read_hops([process(None), process(endpoint, ProcessKind.STORE)]) == {}


@pytest.mark.parametrize("status", [404, 500, None])
def test_what_does_not_answer_properly_is_left_out(serve, status):
    assert read_hops([process(serve("", status))]) == {}


def test_what_does_not_answer_at_all_is_left_out(free_ports):
    assert read_hops([process(f"127.0.0.1:{free_ports(1)}")]) == {}


def test_a_proxy_is_not_asked(serve, monkeypatch):
    endpoint = serve(exposition({"+Inf": 1}))
    monkeypatch.setenv("http_proxy", f"http://{serve('', 500)}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert len(read_hops([process(endpoint)])) == 1
