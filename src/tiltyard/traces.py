"""Spans for OpenTelemetry: requests, batches of votes and SQL statements.

Without the variable ``OTEL_EXPORTER_OTLP_ENDPOINT`` nothing is imported, and a span is an empty block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from tiltyard.errors import MissingExtra

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

__all__ = ["ENDPOINT_VARIABLE", "describe_span", "is_tracing", "span", "tracing"]

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"

_NOTHING: AbstractContextManager[object] = nullcontext()


class _State:
    """The tracer of this process, if it traces."""

    tracer: Tracer | None = None


def is_tracing() -> bool:
    """Whether spans are recorded."""
    return _State.tracer is not None


def span(name: str) -> AbstractContextManager[object]:
    """A block whose duration is recorded under this name."""
    tracer = _State.tracer
    return _NOTHING if tracer is None else tracer.start_as_current_span(name)


def describe_span(name: str | None = None, **attributes: str | float) -> None:
    """Rename the current span, and add attributes to it."""
    if _State.tracer is None:
        return
    from opentelemetry.trace import get_current_span

    current = get_current_span()
    if name is not None:
        current.update_name(name)
    for key, value in attributes.items():
        current.set_attribute(key.replace("__", "."), value)


@contextmanager
def tracing(variables: Mapping[str, str], part: str) -> Iterator[None]:
    """Send the spans of this process to the endpoint that the variables name, if they name one, within this block."""
    endpoint = variables.get(ENDPOINT_VARIABLE, "").strip()
    if not endpoint:
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise MissingExtra("otel", ENDPOINT_VARIABLE) from None

    service = {"service.name": variables.get("OTEL_SERVICE_NAME") or "tiltyard", "tiltyard.part": part}
    provider = TracerProvider(resource=Resource.create(service))
    exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + "/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    _State.tracer = provider.get_tracer("tiltyard")
    try:
        yield
    finally:
        _State.tracer = None
        provider.shutdown()
