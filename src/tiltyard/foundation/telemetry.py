"""What a process tells those who operate it: every metric of the package, and spans for OpenTelemetry.

Code that measures calls `Instrument.record`. Nothing happens until a process registers a recorder, as the
processes of `tiltyard serve` do for Prometheus. No metric has a label for each arena, voter or matchup: what a
service with 10,000 arenas exposes is bounded.

Spans are of requests, batches of votes and SQL statements. Without the variable ``OTEL_EXPORTER_OTLP_ENDPOINT``
nothing of OpenTelemetry is imported, and a span is an empty block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tiltyard.errors import MissingExtra

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

#: The folder in which the processes of one server keep their metrics. Prometheus's library reads it when it is imported.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
#: The label value for everything beyond a bound. No arena can have this name.
OTHER = "_other"

_REQUEST_BUCKET_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_BATCH_BUCKET_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 20.0)
_BATCH_BUCKET_COUNT = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_ANSWER_BUCKET_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
_BOARD_BUCKET_SECONDS = (5, 10, 15, 20, 30, 45, 60, 90, 120, 300, 600, 3600)

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, eq=False)
class Instrument:
    """A metric: its name and unit, what it means, and the labels that it has."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    #: Upper bounds of a histogram's buckets.
    buckets: tuple[float, ...] = ()

    def record(self, amount: float = 1.0, *values: str) -> None:
        """Add to a counter, set a gauge or add an observation to a histogram."""
        for recorder in _recorders:
            recorder(self, amount, values)


#: Receives an instrument, an amount and the values of its labels.
Recorder = Callable[[Instrument, float, tuple[str, ...]], None]

_recorders: list[Recorder] = []


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Pass everything that this process measures to ``recorder`` within this block."""
    _recorders.append(recorder)
    try:
        yield
    finally:
        _recorders.remove(recorder)


# Requests

REQUESTS = Instrument(
    "tiltyard_requests", "counter", "Requests that were answered.", ("route", "method", "status")
)
REQUEST_SECONDS = Instrument(
    "tiltyard_request_seconds", "histogram", "How long requests took.", ("route",), _REQUEST_BUCKET_SECONDS
)
REFUSED_IDENTITY_HEADERS = Instrument(
    "tiltyard_refused_identity_headers",
    "counter",
    "Requests whose headers of a gateway were not believed: from another network, repeated, or no name.",
    ("reason",),
)
SESSIONS = Instrument("tiltyard_sessions", "counter", "Sessions that were created for new voters.")
LIMITED = Instrument(
    "tiltyard_limited",
    "counter",
    "Requests that were refused because a session, a network or an arena did too much in a minute.",
    ("kind", "scope"),
)
LIMIT_LEASES = Instrument(
    "tiltyard_limit_leases",
    "counter",
    "Blocks of rate limits that were asked of the database: granted, refused because nothing was left, or failed.",
    ("result",),
)
GATE_RESULTS = Instrument(
    "tiltyard_gate_results",
    "counter",
    "New voters at the gate of open arenas: passed, failed, unavailable, or asked for a proof first.",
    ("result",),
)

# Voting

EVENTS = Instrument(
    "tiltyard_events",
    "counter",
    "Events that were appended to the logs of arenas, by kind: votes, skips and others.",
    ("kind",),
)
QUEUE_LENGTH = Instrument("tiltyard_queue_length", "gauge", "Requests that wait for a batch.")
LOADED_ARENAS = Instrument("tiltyard_loaded_arenas", "gauge", "Arenas that web processes hold in memory.")
BATCH_REQUESTS = Instrument(
    "tiltyard_batch_requests",
    "histogram",
    "Voters' requests that were decided in one batch.",
    (),
    _BATCH_BUCKET_COUNT,
)
BATCH_SECONDS = Instrument(
    "tiltyard_batch_seconds",
    "histogram",
    "How long a batch took, from its start to its commit.",
    (),
    _BATCH_BUCKET_SECONDS,
)
LOCK_WAIT_SECONDS = Instrument(
    "tiltyard_lock_wait_seconds",
    "histogram",
    "How long a batch waited for the lock of its arena's log.",
    (),
    _BATCH_BUCKET_SECONDS,
)

# Live battles

LIVE_TURNS = Instrument(
    "tiltyard_live_turns", "counter", "Turns of live battles that ended: done, stopped or void.", ("end",)
)
LIVE_TURN_SECONDS = Instrument(
    "tiltyard_live_turn_seconds",
    "histogram",
    "How long turns of live battles took, until both answers were shown.",
    (),
    _ANSWER_BUCKET_SECONDS,
)
LIVE_CALLS = Instrument(
    "tiltyard_live_calls",
    "counter",
    "Calls to the models of live arenas that ended: done, stopped or failed.",
    ("end",),
)
LIVE_FIRST_TOKEN_SECONDS = Instrument(
    "tiltyard_live_first_token_seconds",
    "histogram",
    "How long models of live arenas took to their first token.",
    (),
    _ANSWER_BUCKET_SECONDS,
)
LIVE_FRAMES = Instrument(
    "tiltyard_live_frames",
    "counter",
    "Times at which more of a live battle was shown, to any number of readers.",
)
LIVE_RUNNING_TURNS = Instrument(
    "tiltyard_live_running_turns", "gauge", "Turns of live battles in which models answer now."
)
LIVE_WAITING_VOTERS = Instrument(
    "tiltyard_live_waiting_voters", "gauge", "Voters who were told to wait because too many turns run."
)

# Connections to the database

POOL_LIMIT = Instrument("tiltyard_pool_limit", "gauge", "Connections that the pools may open.")
POOL_IN_USE = Instrument("tiltyard_pool_in_use", "gauge", "Connections of the pools that are in use.")
POOL_WAITING = Instrument("tiltyard_pool_waiting", "gauge", "Callers that wait for a connection of a pool.")
POOL_REFUSED = Instrument(
    "tiltyard_pool_refused", "counter", "Callers that were refused because no connection became free."
)

# Rating

RATED_EVENTS = Instrument("tiltyard_rated_events", "counter", "Events that raters have folded.")
BOARDS = Instrument("tiltyard_boards", "counter", "Boards that raters have published.")
BOARD_LAG_SECONDS = Instrument(
    "tiltyard_board_lag_seconds",
    "histogram",
    "Age of a board's last event when the board was made, including the time in which votes can be undone.",
    (),
    _BOARD_BUCKET_SECONDS,
)
LED_ARENAS = Instrument("tiltyard_led_arenas", "gauge", "Arenas that raters of this machine lead.")

# What is read from the database and the disk at a scrape

DATABASE_UP = Instrument("tiltyard_database_up", "gauge", "Whether the database answers.")
ARENAS = Instrument("tiltyard_arenas", "gauge", "Arenas in the database.")
ARENAS_BEHIND = Instrument("tiltyard_arenas_behind", "gauge", "Arenas with events that are not rated yet.")
UNRATED_EVENTS = Instrument(
    "tiltyard_unrated_events",
    "gauge",
    "Events that are not rated yet, of the arenas with most of them and of all others together.",
    ("arena",),
)
RATER_SILENT_SECONDS = Instrument(
    "tiltyard_rater_silent_seconds",
    "gauge",
    "Seconds since the rater last wrote, of arenas with unrated events; of the others the longest.",
    ("arena",),
)
DATABASE_BYTES = Instrument("tiltyard_database_bytes", "gauge", "Size of the database on its server's disk.")
DATA_FOLDER_FREE_BYTES = Instrument(
    "tiltyard_data_folder_free_bytes", "gauge", "Free space on the disk that has TILTYARD_HOME."
)
DATA_FOLDER_TOTAL_BYTES = Instrument(
    "tiltyard_data_folder_total_bytes", "gauge", "Size of the disk that has TILTYARD_HOME."
)

# Processes

CHILD_RESTARTS = Instrument(
    "tiltyard_child_restarts", "counter", "Processes that ended and were started again.", ("part",)
)

#: All of them.
INSTRUMENTS: tuple[Instrument, ...] = tuple(
    value for value in tuple(globals().values()) if isinstance(value, Instrument)
)


# Spans

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"

_NOTHING: AbstractContextManager[object] = nullcontext()


class _ProcessTracer:
    tracer: Tracer | None = None


def is_tracing() -> bool:
    """Whether spans are recorded."""
    return _ProcessTracer.tracer is not None


def span(name: str) -> AbstractContextManager[object]:
    """A block whose duration is recorded under this name."""
    tracer = _ProcessTracer.tracer
    return _NOTHING if tracer is None else tracer.start_as_current_span(name)


def describe_span(name: str | None = None, **attributes: str | float) -> None:
    """Rename the current span, and add attributes to it."""
    if _ProcessTracer.tracer is None:
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
    _ProcessTracer.tracer = provider.get_tracer("tiltyard")
    try:
        yield
    finally:
        _ProcessTracer.tracer = None
        provider.shutdown()
