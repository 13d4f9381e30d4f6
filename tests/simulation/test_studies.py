"""Studies: the same results whoever runs them, kept, extended, and honest about what failed."""

import enum
import json
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.sizes import sized
from support.voting import COUNTED, DIE, VOTE, Result, Settings, count_runs, vote_some
from tiltyard.core.ratings import BradleyTerry, Elo
from tiltyard.errors import BadOption, TiltyardError
from tiltyard.simulation import studies
from tiltyard.simulation import studies as kept_module
from tiltyard.simulation.studies import (
    DEPENDENCY_PACKAGES,
    ResultCache,
    Study,
    canonical_text,
    code_hash,
    from_plain,
    median_figure,
    paired_difference,
    run_study,
    summarise,
    to_plain,
    versions,
)
from tiltyard.simulation.worlds import WorldSettings


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


# Results that are kept: found again if nothing changed, and safe from a kill.


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Inner:
    share: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outer:
    count: int
    maybe: float | None
    pair: tuple[int, float]
    inner: Inner
    many: tuple[Inner, ...] = ()
    by_name: dict[str, float] = field(default_factory=dict)
    ranks: list[int] = field(default_factory=list)
    colour: Colour = Colour.RED


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INNERS = st.builds(Inner, share=FLOATS, names=st.lists(st.text()).map(tuple))
OUTERS = st.builds(
    Outer,
    count=st.integers(),
    maybe=st.none() | FLOATS,
    pair=st.tuples(st.integers(), FLOATS),
    inner=INNERS,
    many=st.lists(INNERS, max_size=3).map(tuple),
    by_name=st.dictionaries(st.text(), FLOATS, max_size=3),
    ranks=st.lists(st.integers()),
)

SETTINGS = WorldSettings(models=5)


def opened(folder, settings=SETTINGS, **made_by):
    return ResultCache(folder, "order", settings, made_by or {"version": 1, "code": "abc"})


@given(OUTERS)
def test_what_is_kept_comes_back_as_it_was(outer):
    text = canonical_text(to_plain(outer))
    assert "\n" not in text
    assert from_plain(Outer, json.loads(text)) == outer


def test_numbers_come_back_as_the_floats_they_stand_for():
    for share in (3, np.float64(0.5)):
        again = from_plain(Inner, json.loads(canonical_text(to_plain(Inner(share)))))
        assert type(again.share) is float


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Inner(float("nan")), "share is nan"),
        (Inner(float("inf")), "share is inf"),
        (Outer(1, None, (1, 2.0), Inner(0.0, ({1},))), r"inner.names\[0\] is \{1\} \(set\)"),
        (Outer(np.int64(1), None, (1, 2.0), Inner(0.0)), "count is .*int64"),
        ({1: 2}, "the value is {1: 2}"),
    ],
)
def test_what_json_cannot_keep_is_refused_by_name(wrong, said):
    with pytest.raises(BadOption, match=said):
        to_plain(wrong)


def test_results_are_found_again_and_others_are_not(tmp_path):
    first = opened(tmp_path)
    assert first.get(1) is None
    first.add(1, {"share": 0.5})
    first.add(2, {"share": 0.25})
    assert first.get(1) == {"share": 0.5}
    again = opened(tmp_path)
    assert len(again) == 2
    assert (again.get(1), again.get(2), again.get(3)) == ({"share": 0.5}, {"share": 0.25}, None)


@pytest.mark.parametrize("made_by", [{"version": 2, "code": "abc"}, {"version": 1, "code": "abd"}])
def test_another_version_or_other_code_finds_nothing_and_destroys_nothing(tmp_path, made_by):
    opened(tmp_path).add(1, 7)
    assert opened(tmp_path, replace(SETTINGS, lazy=0.06)).path != opened(tmp_path).path
    other = opened(tmp_path, **made_by)
    assert other.get(1) is None
    other.add(1, 8)
    assert (opened(tmp_path).get(1), opened(tmp_path, **made_by).get(1)) == (7, 8)
    assert len(list(tmp_path.iterdir())) == 1


def test_methods_with_the_same_fields_are_not_the_same_settings():
    assert canonical_text(to_plain((BradleyTerry(),))) != canonical_text(to_plain((Elo(),)))
    assert to_plain(Inner(1.0))["class"] == "Inner"


@given(cut=st.integers(1, 400), tail=st.booleans())
def test_a_line_cut_short_is_passed_over_and_written_again(tmp_path_factory, cut, tail):
    folder = tmp_path_factory.mktemp("kept")
    first = opened(folder)
    first.add(1, 7)
    whole = first.path.read_bytes()
    first.add(2, 8)
    both = first.path.read_bytes()
    torn = both[: max(len(both) - cut, len(whole) + 1)]
    first.path.write_bytes(torn)
    again = opened(folder)
    assert again.get(1) == 7
    assert again.get(2) == (8 if len(torn) >= len(both) - 1 else None)
    again.add(3, 9)
    again.add(2, 8)
    last = opened(folder)
    assert [last.get(seed) for seed in (1, 2, 3)] == [7, 8, 9]
    assert last.path.read_bytes().startswith(torn)


@pytest.mark.parametrize("rubbish", [b"[1]\n", b'{"key": 3}\n', b"\xff\xfe\n", b"null\n", b"\n\n"])
def test_lines_that_say_nothing_are_passed_over(tmp_path, rubbish):
    first = opened(tmp_path)
    first.add(1, 7)
    first.path.write_bytes(rubbish + first.path.read_bytes())
    assert opened(tmp_path).get(1) == 7


def test_two_who_write_at_once_lose_nothing(tmp_path):
    one, other = opened(tmp_path), opened(tmp_path)
    for seed in range(5):
        one.add(2 * seed, seed)
        other.add(2 * seed + 1, seed)
    assert [opened(tmp_path).get(seed) for seed in range(10)] == [seed // 2 for seed in range(10)]


def test_a_line_says_what_made_it(tmp_path):
    first = opened(tmp_path)
    first.add(4, 7)
    row = json.loads(first.path.read_text())
    assert row["settings"] == to_plain(SETTINGS)
    assert (row["study"], row["seed"], row["version"], row["code"]) == ("order", 4, 1, "abc")


def test_a_place_that_cannot_be_used_is_named(tmp_path):
    kept = opened(tmp_path / "file")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="order-"):
        kept.add(1, 7)
    (tmp_path / opened(tmp_path).path.name).mkdir()
    with pytest.raises(BadOption, match="set TILTYARD_HOME"):
        opened(tmp_path)


def test_a_full_disk_is_an_error(tmp_path):
    class Full:
        def seek(self, *_):
            return 0

        def write(self, data):
            return len(data) - 1

    with pytest.raises(OSError, match="space"):
        kept_module._append(Full(), b"line\n")


def test_the_code_counts_module_by_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "code_that_counts"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "worlds.py").write_text("a = 1")
    (package / "demo.py").write_text("b = 1")
    code_hash.cache_clear()
    try:
        seen = [code_hash(("code_that_counts",)), code_hash(("code_that_counts.worlds",))]
        (package / "demo.py").write_text("b = 2")
        code_hash.cache_clear()
        assert code_hash(("code_that_counts",)) != seen[0]
        assert code_hash(("code_that_counts.worlds",)) == seen[1]
        for unknown in ("cellar", "cellar.shelf"):
            with pytest.raises(BadOption, match=f"no module named {unknown};"):
                code_hash((unknown,))
    finally:
        code_hash.cache_clear()


def test_arithmetic_is_part_of_the_key():
    made_by = versions()
    assert made_by["numpy"] == np.__version__
    assert set(made_by) == {"code", "numpy", "scipy", "numba"}
    assert made_by["code"] == code_hash(DEPENDENCY_PACKAGES)
    assert kept_module._version("no-such-library") is None
