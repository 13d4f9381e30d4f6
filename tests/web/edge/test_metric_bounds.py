"""Metrics of a service with 10,000 arenas: bounded labels, bounded statements, and what the numbers mean."""

import pytest
from psycopg.errors import CheckViolation
from test_health import figures_in

from support.live_arenas import made_arena
from tiltyard.arena.operators.service_status import ServiceStatus, ServiceStatusReader
from tiltyard.arena.rating import rater_lag
from tiltyard.arena.rating.rater_lag import LagSweep, RaterLag
from tiltyard.foundation import telemetry
from tiltyard.foundation.telemetry import INSTRUMENTS, OTHER, Instrument, recording
from tiltyard.postgres.connections import connect
from tiltyard.web.edge.metrics import ProcessMetrics, metrics_page

ARENA_COUNT = 10_000
#: Enough for several sweeps of 300 logs.
SWEPT_COUNT = 1_000


def lags(count, unrated=lambda k: k % 7):
    return [RaterLag(f"arena-{k}", 100 + unrated(k), 100, 100, "one", float(k)) for k in range(count)]


def page(status, metrics=None):
    own = None if metrics is None else metrics.registry
    return metrics_page(own, lambda: status).decode()


def test_names_have_units_and_no_two_are_alike():
    names = [one.name for one in INSTRUMENTS]
    assert len(names) == len(set(names)) > 20
    for one in INSTRUMENTS:
        assert one.name.startswith("tiltyard_")
        assert one.help.endswith(".")
        assert (one.kind == "histogram") == bool(one.buckets)
        assert list(one.buckets) == sorted(one.buckets)


def test_only_what_is_read_at_a_scrape_is_labelled_by_arena():
    assert {one.name for one in INSTRUMENTS if "arena" in one.labels} == {
        "tiltyard_unrated_events",
        "tiltyard_rater_silent_seconds",
    }


def test_ten_thousand_arenas_make_no_longer_page_than_fifty():
    few = page(ServiceStatus(lags(50), 1, (1, 2)))
    many = page(ServiceStatus(lags(ARENA_COUNT), 1, (1, 2)))
    assert len(many.splitlines()) == len(few.splitlines()) < 100
    figures = figures_in(many)
    assert figures["tiltyard_arenas"] == ARENA_COUNT
    assert figures["tiltyard_arenas_behind"] == sum(1 for k in range(ARENA_COUNT) if k % 7)
    named = {name: value for name, value in figures.items() if name.startswith("tiltyard_unrated_events")}
    assert len(named) == 21
    assert sum(named.values()) == sum(k % 7 for k in range(ARENA_COUNT))
    assert max(named, key=named.get) == f'tiltyard_unrated_events{{arena="{OTHER}"}}'
    assert figures[f'tiltyard_rater_silent_seconds{{arena="{OTHER}"}}'] == ARENA_COUNT - 1


def test_arenas_with_most_unrated_events_are_named():
    text = page(ServiceStatus(lags(100, lambda k: 1_000 if k == 77 else 1), 1, None))
    assert figures_in(text)['tiltyard_unrated_events{arena="arena-77"}'] == 1_000
    assert "tiltyard_data_folder_free_bytes" not in figures_in(text)


def test_a_rated_arena_is_neither_named_nor_silent():
    text = page(ServiceStatus(lags(3, lambda _: 0), 1, None))
    assert 'arena="' not in text
    assert figures_in(text)["tiltyard_arenas_behind"] == 0


def test_label_values_beyond_the_limit_are_counted_together():
    metrics = ProcessMetrics()
    with recording(metrics):
        for k in range(ARENA_COUNT):
            telemetry.REQUESTS.record(1, f"route-{k}", "GET", "200")
    text = page(ServiceStatus([], 1, None), metrics)
    series = [line for line in text.splitlines() if line.startswith("tiltyard_requests_total")]
    assert len(series) == 501
    other = f'tiltyard_requests_total{{method="{OTHER}",route="{OTHER}",status="{OTHER}"}}'
    assert figures_in(text)[other] == ARENA_COUNT - 500
    assert len(metrics._series) <= 501


def test_no_arena_can_be_called_like_the_rest(database):
    made_arena(database)
    with connect(database) as connection, pytest.raises(CheckViolation, match="arenas_name_check"):
        connection.execute("UPDATE arenas SET name = %s", [OTHER])


def test_nothing_is_recorded_outside_the_block():
    seen = []
    instrument = Instrument("tiltyard_x", "counter", "X.", ("a",))
    instrument.record(1, "before")
    with recording(lambda *told: seen.append(told)):
        instrument.record(2, "inside")
    instrument.record(3, "after")
    assert seen == [(instrument, 2, ("inside",))]


class Counting:
    """A database with many arenas that counts the logs that are looked at."""

    def __init__(self, count):
        self.rows = [(k, f"arena-{k:05}", 10, 10, None, float(count - k)) for k in range(count)]
        self.heads = dict.fromkeys(range(count), 10)
        self.looked = []

    def progress(self, _):
        return [rater_lag._Progress(*row) for row in self.rows]

    def head(self, _, arena):
        self.looked.append(arena)
        return self.heads[arena]


@pytest.fixture
def counting(monkeypatch):
    made = Counting(SWEPT_COUNT)
    monkeypatch.setattr(rater_lag, "_progress", made.progress)
    monkeypatch.setattr(rater_lag, "_head", made.head)
    return made


def test_a_sweep_looks_at_few_logs_and_at_all_in_turn(counting):
    sweep, seen = LagSweep(), set()
    for _ in range(SWEPT_COUNT // 200 + 1):
        counting.looked.clear()
        assert len(sweep.read(None)) == SWEPT_COUNT
        assert len(counting.looked) == len(set(counting.looked)) == 300
        seen |= set(counting.looked)
    assert seen == set(range(SWEPT_COUNT))


def test_an_arena_that_is_behind_is_looked_at_until_it_is_not(counting):
    sweep = LagSweep()
    counting.heads[7] = 25
    behind = []
    for _ in range(SWEPT_COUNT // 200 + 1):
        behind = [lag.arena for lag in sweep.read(None) if lag.unrated]
    assert behind == ["arena-00007"]
    counting.looked.clear()
    sweep.read(None)
    assert 7 in counting.looked
    counting.rows[7] = (*counting.rows[7][:2], 25, 25, *counting.rows[7][4:])
    assert not [lag for lag in sweep.read(None) if lag.unrated]


def test_a_status_is_read_from_a_real_database(database, tmp_path):
    made_arena(database)
    reader = ServiceStatusReader(database, tmp_path)
    status = reader.read()
    assert [lag.arena for lag in status.lags] == ["arena"]
    assert status.database_bytes > 1_000_000
    free, total = status.disk
    assert 0 < free < total
    assert ServiceStatusReader(database, tmp_path / "missing").read().disk is None
    gone = ServiceStatusReader(database + "_not", tmp_path).read()
    assert (gone.lags, gone.database_bytes) == (None, None)
