"""Metrics for Prometheus.

Processes of one server share their metrics: each writes its own to a file in the folder
``PROMETHEUS_MULTIPROC_DIR`` (set by `tiltyard serve`), and the process that is scraped adds them up.
A single process keeps them in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from tiltyard.arena.operators.service_status import ServiceStatus
from tiltyard.arena.rating.rater_lag import RaterLag
from tiltyard.foundation import telemetry
from tiltyard.foundation.telemetry import FOLDER_VARIABLE, INSTRUMENTS, OTHER, Instrument

if TYPE_CHECKING:
    from tiltyard.arena.registry import ArenaRegistry
    from tiltyard.web.access.access import Context

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Time series that one metric may have in one process; further label values are counted as `OTHER`.
_SERIES_LIMIT_COUNT = 500
#: Arenas that are named; all others are one series.
_NAMED_ARENA_LIMIT = 20

#: Read at a scrape and not recorded by processes.
_SCRAPED = frozenset(
    {
        telemetry.DATABASE_UP,
        telemetry.ARENAS,
        telemetry.ARENAS_BEHIND,
        telemetry.UNRATED_EVENTS,
        telemetry.RATER_SILENT_SECONDS,
        telemetry.DATABASE_BYTES,
        telemetry.DATA_FOLDER_FREE_BYTES,
        telemetry.DATA_FOLDER_TOTAL_BYTES,
        telemetry.LIVE_RUNNING_TURNS,
        telemetry.LIVE_WAITING_VOTERS,
    }
)

_Series = Counter | Gauge | Histogram


class ProcessMetrics:
    """The metrics of one process: a recorder of telemetry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._metrics = {
            instrument: _metric(instrument, self.registry)
            for instrument in INSTRUMENTS
            if instrument not in _SCRAPED
        }
        self._series: dict[tuple[Instrument, tuple[str, ...]], _Series] = {}
        self._counts = dict.fromkeys(self._metrics, 0)

    def __call__(self, instrument: Instrument, amount: float, values: tuple[str, ...]) -> None:
        """Record an amount; see `tiltyard.foundation.telemetry.Recorder`."""
        series = self._series.get((instrument, values))
        if series is None:
            series = self._add(instrument, values)
        if isinstance(series, Counter):
            series.inc(amount)
        elif isinstance(series, Gauge):
            series.set(amount)
        else:
            series.observe(amount)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request. The route is the name of its function, so that there are few labels."""
        self(telemetry.REQUESTS, 1.0, (route, method, str(status)))
        self(telemetry.REQUEST_SECONDS, seconds, (route,))

    def _add(self, instrument: Instrument, values: tuple[str, ...]) -> _Series:
        if self._counts[instrument] >= _SERIES_LIMIT_COUNT:
            # Not kept: what is unbounded must not be held in memory either.
            return self._child(instrument, (OTHER,) * len(values))
        self._counts[instrument] += 1
        series = self._series[instrument, values] = self._child(instrument, values)
        return series

    def _child(self, instrument: Instrument, values: tuple[str, ...]) -> _Series:
        metric = self._metrics[instrument]
        return metric.labels(*values) if values else metric


def _metric(instrument: Instrument, registry: CollectorRegistry) -> _Series:
    name, text, labels = instrument.name, instrument.help, instrument.labels
    if instrument.kind == "counter":
        return Counter(name, text, labels, registry=registry)
    if instrument.kind == "gauge":
        return Gauge(name, text, labels, registry=registry, multiprocess_mode="livesum")
    return Histogram(name, text, labels, registry=registry, buckets=instrument.buckets)


def metrics_of(context: Context) -> ProcessMetrics:
    return context.shared(ProcessMetrics, ProcessMetrics)


def record_gauges(registry: ArenaRegistry) -> None:
    """Record how full queues and pool are now."""
    queues = registry.voting_queues
    telemetry.LOADED_ARENAS.record(sum(queue.ready for queue in queues))
    telemetry.QUEUE_LENGTH.record(sum(queue.waiting for queue in queues))
    telemetry.POOL_LIMIT.record(registry.pool.most)
    telemetry.POOL_IN_USE.record(registry.pool.in_use)
    telemetry.POOL_WAITING.record(registry.pool.waiting)


class ServiceStatusCollector(Collector):
    """What is read from database and disk at every scrape, with few arenas named."""

    def __init__(self, read: Callable[[], ServiceStatus]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        status = self._read()
        lags, disk = status.lags or (), status.disk
        behind = sorted((lag for lag in lags if lag.unrated), key=lambda lag: -lag.unrated)
        yield _gauge(telemetry.DATABASE_UP, 0 if status.lags is None else 1)
        yield _gauge(telemetry.ARENAS, len(lags))
        yield _gauge(telemetry.ARENAS_BEHIND, len(behind))
        yield _by_arena(telemetry.UNRATED_EVENTS, behind, lambda lag: lag.unrated, sum)
        yield _by_arena(telemetry.RATER_SILENT_SECONDS, behind, lambda lag: lag.seconds, max)
        yield _gauge(telemetry.DATABASE_BYTES, status.database_bytes)
        yield _gauge(telemetry.DATA_FOLDER_FREE_BYTES, None if disk is None else disk[0])
        yield _gauge(telemetry.DATA_FOLDER_TOTAL_BYTES, None if disk is None else disk[1])
        yield _gauge(telemetry.LIVE_RUNNING_TURNS, status.live_turns[0])
        yield _gauge(telemetry.LIVE_WAITING_VOTERS, status.live_turns[1])


def _gauge(instrument: Instrument, value: float | None) -> GaugeMetricFamily:
    family = GaugeMetricFamily(instrument.name, instrument.help, labels=instrument.labels)
    if value is not None:
        family.add_metric([], value)
    return family


def _by_arena(
    instrument: Instrument,
    lags: Sequence[RaterLag],
    value: Callable[[RaterLag], float],
    together: Callable[[list[float]], float],
) -> GaugeMetricFamily:
    """The first arenas by name, and the others as one."""
    family = GaugeMetricFamily(instrument.name, instrument.help, labels=instrument.labels)
    for lag in lags[:_NAMED_ARENA_LIMIT]:
        family.add_metric([lag.arena], value(lag))
    others = [value(lag) for lag in lags[_NAMED_ARENA_LIMIT:]]
    if others:
        family.add_metric([OTHER], together(others))
    return family


class _Joined(Collector):
    """The metrics of another registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        return self._registry.collect()


def metrics_page(own: CollectorRegistry | None, read: Callable[[], ServiceStatus]) -> bytes:
    """All metrics in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(ServiceStatusCollector(read))
    if os.environ.get(FOLDER_VARIABLE):
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    elif own is not None:
        registry.register(_Joined(own))
    return generate_latest(registry)


def forget_process(pid: int) -> None:
    """Remove the gauges of a process that has ended."""
    if os.environ.get(FOLDER_VARIABLE):
        mark_process_dead(pid)  # type: ignore[no-untyped-call]
