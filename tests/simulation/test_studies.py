"""Studies: the same results whoever runs them, kept, extended, and honest about what failed."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.sizes import sized
from support.voting import COUNTED, DIE, VOTE, Result, Settings, count_runs, vote_some
from tiltyard.errors import BadOption, TiltyardError
from tiltyard.simulation import studies
from tiltyard.simulation.studies import (
    Study,
    median_figure,
    paired_difference,
    proportion,
    run_study,
    summarise,
)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Which seeds were run since the last call."""
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))

    def read():
        path = tmp_path / "runs"
        seen = [int(line) for line in path.read_text().split()] if path.exists() else []
        path.unlink(missing_ok=True)
        return seen

    return read


def test_many_processes_give_what_one_gives_in_the_order_of_the_seeds(tmp_path, monkeypatch):
    """Each worker takes one thread, and the environment is as before."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    settings = Settings(slow_first=True)
    seeds = [3, 0, 1, 2, 1]
    there = run_study(VOTE, settings, seeds, processes=2, folder=tmp_path)
    assert {result.threads for result in there} == {"1"}
    assert "OPENBLAS_NUM_THREADS" not in os.environ
    assert os.environ["OMP_NUM_THREADS"] == "7"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    here = run_study(VOTE, settings, seeds)
    assert here == there == run_study(VOTE, settings, seeds, folder=tmp_path)
    assert here == [vote_some(settings, seed) for seed in seeds]
    assert len({result.ties for result in here}) > 1


def test_a_run_that_is_extended_runs_only_what_is_missing(tmp_path, runs):
    folder = tmp_path / "lab"
    first = run_study(COUNTED, Settings(), range(3), folder=folder)
    assert runs() == [0, 1, 2]
    more = run_study(COUNTED, Settings(), range(5), folder=folder)
    assert runs() == [3, 4]
    assert more[:3] == first
    run_study(COUNTED, Settings(), [4, 2], folder=folder, processes=2)
    assert runs() == []
    run_study(COUNTED, Settings(votes=51), [0], folder=folder)
    assert runs() == [0]
    run_study(Study("count-runs", 2, count_runs, Result), Settings(), [0], folder=folder)
    assert runs() == [0]


def test_without_a_folder_nothing_is_kept(tmp_path, runs, monkeypatch):
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
    run_study(COUNTED, Settings(), [0])
    run_study(COUNTED, Settings(), [0])
    assert runs() == [0, 0]
    assert not (tmp_path / "home").exists()


def test_progress_counts_what_was_kept_and_then_each_seed(tmp_path):
    heard = []
    run_study(VOTE, Settings(), [0, 1], folder=tmp_path)
    run_study(VOTE, Settings(), [0, 1, 2, 3, 3], folder=tmp_path, on_progress=lambda *now: heard.append(now))
    assert heard == [(2, 4), (3, 4), (4, 4)]


@pytest.mark.slow(but="0")
@pytest.mark.parametrize("processes", [0, 2])
def test_a_seed_that_fails_is_named_and_the_finished_are_kept(tmp_path, runs, processes):
    settings = Settings(bad_seed=2)
    with pytest.raises(TiltyardError, match="seed 2: ValueError") as caught:
        run_study(COUNTED, settings, range(3), folder=tmp_path / "lab", processes=processes)
    assert isinstance(caught.value.__cause__, ValueError)
    (kept,) = (tmp_path / "lab").iterdir()
    finished = {json.loads(line)["seed"] for line in kept.read_text().splitlines()}
    # Seed 2 was begun by whichever process had finished another.
    assert finished
    assert finished <= set(runs()) - {2}
    with pytest.raises(TiltyardError, match="at seed 2"):
        run_study(COUNTED, settings, range(3), folder=tmp_path / "lab")
    assert set(runs()) == set(range(3)) - finished


def test_what_is_finished_when_a_run_ends_early_is_taken():
    finished, failed, waiting = Future(), Future(), Future()
    finished.set_result(5)
    failed.set_exception(ValueError())
    taken = []
    studies._end([], {failed: 0, finished: 1, waiting: 2}, lambda *answer: taken.append(answer))
    assert taken == [(1, 5)]


def test_a_worker_that_dies_is_reported_with_its_seed(tmp_path):
    with pytest.raises(TiltyardError, match="seed 1;"):
        run_study(DIE, Settings(bad_seed=1), range(3), folder=tmp_path, processes=1)
    assert len(run_study(DIE, Settings(bad_seed=1), [0], folder=tmp_path)) == 1


STOPPED = """
import os, sys, time
from dataclasses import dataclass
from pathlib import Path
from tiltyard.simulation.studies import Study, run_study

@dataclass(frozen=True)
class Slept:
    seed: int

def sleep(settings, seed):
    if seed > 1:
        (Path(settings) / str(os.getpid())).touch()
        time.sleep(60)
    return Slept(seed)

if __name__ == "__main__":
    study = Study("sleep", 1, sleep, Slept)
    tell = lambda done, total: print(done, flush=True)
    run_study(study, sys.argv[1], range(6), folder=Path(sys.argv[2]), processes=2, on_progress=tell)
"""


@pytest.mark.slow(but="2")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_keeps_what_is_finished_and_leaves_no_worker(tmp_path, how):
    (tmp_path / "script.py").write_text(STOPPED)
    (tmp_path / "pids").mkdir()
    command = [sys.executable, tmp_path / "script.py", tmp_path / "pids", tmp_path / "lab"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        while run.stdout.readline() != "2\n":
            assert run.poll() is None
        workers = wait_for(lambda: len(list((tmp_path / "pids").iterdir())) == 2) and [
            int(path.name) for path in (tmp_path / "pids").iterdir()
        ]
        run.send_signal(how)
        run.wait(60)
    assert wait_for(lambda: not any(alive(pid) for pid in workers))
    (kept,) = (tmp_path / "lab").iterdir()
    assert len(kept.read_text().splitlines()) == 2


def wait_for(state):
    for _ in range(1200):
        if state():
            return True
        time.sleep(0.05)
    return False


def alive(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_negative_number_of_processes_is_refused():
    with pytest.raises(BadOption, match="processes is -1"):
        run_study(VOTE, Settings(), [0], processes=-1)


VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)


@given(VALUES)
def test_a_figure_is_the_mean_and_its_standard_error(values):
    figure = summarise(values)
    assert figure.mean == pytest.approx(np.mean(values), abs=1e-6)
    assert figure.error == pytest.approx(stats.sem(values), abs=1e-6)
    low, high = figure.interval(0.9)
    if figure.error > 1e-6:
        expected = stats.t.interval(0.9, len(values) - 1, figure.mean, figure.error)
        assert (low, high) == pytest.approx(expected)


def test_figures_of_little_or_nothing():
    assert summarise([3.0]).error == math.inf
    assert summarise([3.0]).interval() == (-math.inf, math.inf)
    hard = [0.1, 0.5, 0.9]
    figure = paired_difference([value + 0.02 for value in hard], hard)
    assert figure.mean == pytest.approx(0.02)
    assert figure.error < 1e-12
    with pytest.raises(BadOption, match="paired with 1"):
        paired_difference(hard, [1.0])
    assert median_figure([1.0, 2.0, math.inf]).value == 2.0
    assert median_figure([1.0, math.inf]).value == math.inf
    assert median_figure([math.inf] * 4).value == math.inf
    for make in (summarise, median_figure):
        with pytest.raises(BadOption, match="no values"):
            make([])
    for hits, n in ((0, 0), (3, 2), (-1, 2)):
        with pytest.raises(BadOption, match="proportion"):
            proportion(hits, n)


@given(st.integers(1, 60), st.sampled_from([0.8, 0.95]))
def test_a_median_lies_in_the_narrowest_interval_that_covers(n, level):
    median = median_figure(list(range(n, 0, -1)), level)
    assert median.value == np.median(range(1, n + 1))
    k = int(median.low)
    assert median.high == n + 1 - k
    assert median.level == pytest.approx(max(1 - 2 * stats.binom.cdf(k - 1, n, 0.5), 0.0))
    assert median.level >= level or k == 1
    if k < median.value - 1:
        assert 1 - 2 * stats.binom.cdf(k, n, 0.5) < level


def test_the_interval_of_a_median_holds_the_median_as_often_as_it_says():
    rng = np.random.default_rng(4)
    found = [median_figure(rng.exponential(size=25).tolist()) for _ in range(sized(300, 1000))]
    held = sum(one.low <= math.log(2) <= one.high for one in found)
    assert stats.binomtest(held, len(found), found[0].level).pvalue > 1e-3


@given(st.integers(1, 300), st.data())
def test_shares_have_the_interval_of_clopper_and_pearson(n, data):
    hits = data.draw(st.integers(0, n))
    found = proportion(hits, n)
    expected = stats.binomtest(hits, n).proportion_ci(0.95, "exact")
    assert (found.value, found.low, found.high) == pytest.approx((hits / n, expected.low, expected.high))
