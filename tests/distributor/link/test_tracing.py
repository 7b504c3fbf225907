from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dafka import Producer
from dafka.errors import MisuseError
from dafka.model import Partition
from dafka.records.sampling import SampledRecord
from distributor.link.events import Hopped
from distributor.link.tracing import HopTracer, tracer_of
from tests.dafka.records.test_sampling import SPAN, TRACE, WANTED
from topology.plan import plan
from topology.testing import topology_of, tree_of

ONE = SampledRecord(Partition("orders", "AA"), 9, TRACE, SPAN)
LINK = plan(topology_of(tree_of((3, "a", "b")))).links[0]


def test_a_hop_is_a_child_of_the_senders_span():
    told = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(told))
    tracer = HopTracer(provider.get_tracer("test"), LINK, "b", clock=lambda: 5_000)
    tracer.hopped(Hopped(10, 1_000, 40))
    tracer.hopped(Hopped(10, 1_000, 40, pulled=True, sampled=(ONE, ONE._replace(sequence=12))))
    first, second = told.get_finished_spans()
    assert first.name == "copy orders"
    assert (first.context.trace_id, first.parent.span_id) == (TRACE, SPAN)
    assert (first.start_time, first.end_time) == (4_960_000_000, 5_000_000_000)
    assert dict(first.attributes) == {
        "messaging.system": "dafka",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "AA",
        "messaging.message.id": "9",
        "dafka.source": "a",
        "dafka.target": "b",
        "dafka.level": 3,
        "dafka.pulled": True,
    }
    assert second.attributes["messaging.message.id"] == "12"


def test_it_is_off_unless_asked_for():
    assert tracer_of({}) is None
    assert tracer_of({"OTEL_TRACES_EXPORTER": "none"}) is None
    with pytest.raises(MisuseError, match="OTEL_TRACES_EXPORTER is 'zipkin'"):
        tracer_of({"OTEL_TRACES_EXPORTER": "zipkin"})


def test_without_the_libraries_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MisuseError, match=r"pip install 'dafka-distributor\[traces\]'"):
        tracer_of({"OTEL_TRACES_EXPORTER": "otlp"})


class Collector(ThreadingHTTPServer):
    """Takes what is exported over HTTP."""

    def __init__(self):
        self.spans = []
        super().__init__(("127.0.0.1", 0), Collecting)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"


class Collecting(BaseHTTPRequestHandler):
    def do_POST(self):
        octets = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportTraceServiceRequest.FromString(octets)
        self.server.spans += [
            ({one.key: one.value.string_value for one in resource.resource.attributes}, span)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.net
@pytest.mark.slow
def test_a_collector_hears_of_every_hop_of_a_sampled_record(pair, until, monkeypatch):
    """Over a real link, in a process of its own, as variables say."""
    collector = Collector()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    words = ("run", "--topology", str(pair.file), "--cluster", "c1", "--level", "1")
    command = [sys.executable, "-m", "distributor", *words]
    with pair.running(), Producer(pair.topology.clusters[0].towers[0]) as own:
        running = subprocess.Popen(command)
        try:
            own.send("orders", b"quiet")
            own.send("orders", b"traced", headers=[("traceparent", WANTED)])
            own.flush(30)
            until(lambda: collector.spans)
        finally:
            running.terminate()
            assert running.wait(60) == 0
    collector.shutdown()
    collector.server_close()
    ((resource, span),) = collector.spans
    assert resource["service.name"] == "dafka-distributor"
    assert (span.name, span.trace_id.hex()) == ("copy orders", f"{TRACE:032x}")
    assert span.parent_span_id.hex() == f"{SPAN:016x}"
