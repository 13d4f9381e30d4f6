"""Metrics for Prometheus.

Web processes that share a port also share their metrics: each writes its own to a file in the folder
``PROMETHEUS_MULTIPROC_DIR`` (set by `tiltyard serve`), and the process that is scraped adds them up.
A single process keeps them in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from tiltyard.arena.rating.rater_lag import RaterLag, read_current_rater_lags
from tiltyard.errors import StoreFault

__all__ = [
    "FOLDER_VARIABLE",
    "METRICS_TYPE",
    "ProcessMetrics",
    "RaterLagCollector",
    "metrics_page",
    "serve_metrics",
]

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_LATENCY_BUCKET_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class ProcessMetrics:
    """The metrics of one web process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "tiltyard_requests",
            "Requests that were answered.",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "tiltyard_request_seconds",
            "How long requests took.",
            ["route"],
            buckets=_LATENCY_BUCKET_SECONDS,
            registry=self.registry,
        )
        self._refused = Counter(
            "tiltyard_refused_connections",
            "Connections that were closed for what they sent, for how slowly, or for their number.",
            ["reason"],
            registry=self.registry,
        )
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request. The route is the name of its function, so that there are few labels."""
        key = (route, method, status)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(route, method, str(status))
            self._histograms.setdefault(route, self._seconds.labels(route))
        counter.inc()
        self._histograms[route].observe(seconds)

    def refused(self, reason: str) -> None:
        """Count a connection that was closed because of ``headers``, ``deadline`` or ``connections``."""
        self._refused.labels(reason).inc()


class RaterLagCollector(Collector):
    """Progress of the raters, read from the database at every scrape."""

    def __init__(self, read: Callable[[], Iterable[RaterLag]]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        up = GaugeMetricFamily("tiltyard_database_up", "Whether the database answers.")
        head = GaugeMetricFamily("tiltyard_log_head", "The last position of the log.", labels=["arena"])
        rated = GaugeMetricFamily("tiltyard_rated", "The last position that was rated.", labels=["arena"])
        silent = GaugeMetricFamily(
            "tiltyard_rater_silent_seconds", "Seconds since the rater last wrote.", labels=["arena"]
        )
        try:
            lags = list(self._read())
        except StoreFault:
            up.add_metric([], 0)
            lags = []
        else:
            up.add_metric([], 1)
        for lag in lags:
            head.add_metric([lag.arena], lag.head)
            rated.add_metric([lag.arena], lag.position)
            silent.add_metric([lag.arena], lag.seconds)
        yield from (up, head, rated, silent)


def metrics_page(own: CollectorRegistry | None, read: Callable[[], Iterable[RaterLag]]) -> bytes:
    """All metrics in Prometheus's text format; of all processes if there are several."""
    registry = CollectorRegistry()
    registry.register(RaterLagCollector(read))
    if os.environ.get(FOLDER_VARIABLE):
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
    return generate_latest(registry) + (b"" if own is None else generate_latest(own))


def serve_metrics(host: str, port: int, url: str) -> Callable[[], None]:
    """Serve metrics on a separate port in a thread; return a function that stops it."""
    registry = CollectorRegistry()
    registry.register(RaterLagCollector(lambda: read_current_rater_lags(url)))
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    server, thread = start_http_server(port, host, registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
