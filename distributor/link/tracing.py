"""Spans of the hops of sampled records (ADR 53). The only importer of OpenTelemetry.

It is set up by OpenTelemetry's own variables, which its libraries read.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.process.clock import wall_ms
from topology.extras import MissingExtraError, told_of_extras

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

    from dafka.records.sampling import SampledRecord
    from distributor.link.events import Hopped
    from topology.plan import Link

EXPORTER = "OTEL_TRACES_EXPORTER"

EXPORT_S = 1
"""A collector that takes longer is given up: a process that ends tries as long for what is left."""

_NS = 1_000_000


def tracer_of(environment: Mapping[str, str] = os.environ) -> Tracer | None:
    """Return what makes spans, None if nobody wants them.

    Raises:
        MisuseError: They are wanted in a way that is not there.
    """
    wanted = environment.get(EXPORTER, "none")
    if wanted == "none":
        return None
    if wanted != "otlp":
        raise MisuseError(f"{EXPORTER} is {wanted!r}: traces are exported by otlp, or none")
    return _provider().get_tracer("dafka")


@cache
def _provider() -> TracerProvider:
    """One for all links of a process; what is left goes out when that ends."""
    try:
        with told_of_extras():
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except MissingExtraError as error:
        raise MisuseError(f"{EXPORTER} asks for traces, and {error}") from error
    named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "dafka-distributor"}
    timeout_s = None if "OTEL_EXPORTER_OTLP_TIMEOUT" in os.environ else EXPORT_S
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=timeout_s)))
    return provider


class HopTracer:
    """Tells the hops of one link.

    Args:
        tracer: Makes the spans.
        link: Which.
        target: Where it aims.
        clock: Wall time in milliseconds.
    """

    def __init__(
        self, tracer: Tracer, link: Link, target: str, clock: Callable[[], int] = wall_ms
    ) -> None:
        self._tracer = tracer
        self._clock = clock
        self._facts: dict[str, str | int] = {
            "messaging.system": "dafka",
            "dafka.source": str(link.source),
            "dafka.target": target,
            "dafka.level": link.level,
        }

    def hopped(self, hopped: Hopped) -> None:
        """A batch is durable at the target."""
        if hopped.sampled:
            end_ms = self._clock()
            for one in hopped.sampled:
                self._tell(one, end_ms - hopped.latency_ms, end_ms, pulled=hopped.pulled)

    def _tell(self, one: SampledRecord, began_ms: int, end_ms: int, *, pulled: bool) -> None:
        from opentelemetry import trace

        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        sender = trace.SpanContext(one.trace_id, one.span_id, is_remote=True, trace_flags=flags)
        span = self._tracer.start_span(
            f"copy {one.partition.topic}",
            context=trace.set_span_in_context(trace.NonRecordingSpan(sender)),
            kind=trace.SpanKind.PRODUCER,
            start_time=began_ms * _NS,
            attributes={
                **self._facts,
                "messaging.destination.name": one.partition.topic,
                "messaging.destination.partition.id": one.partition.address,
                "messaging.message.id": str(one.sequence),
                "dafka.pulled": pulled,
            },
        )
        span.end(end_ms * _NS)
