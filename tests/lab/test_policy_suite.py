"""The suite of bars: rows by name, verdicts only where they can be given, runs shared and kept."""

from dataclasses import replace

import pytest

from lab import policy_bars
from lab.bars import SIZES, BarThreshold, PolicyBar, StudyRuns, make_bar
from lab.claim_studies import RD, CoveredSettings, RdSettings, measure_coverage
from lab.policy_suite import ROWS, SuiteResult, bar_names, run_suite
from support.arena_results import result
from tiltyard.errors import BadOption
from tiltyard.simulation.simulated_arena import ARENA
from tiltyard.simulation.studies import MeanFigure, Study, from_plain, to_plain
from tiltyard.simulation.worlds import WorldSettings

TINY = replace(SIZES["small"], seeds=1, others=1, paired=1, worlds=1, votes=600)


def tiny_runs(size=TINY):
    return StudyRuns(size, None, 0, lambda *_: None)


@pytest.fixture(scope="module")
def bars():
    """Every row of tiny arenas and, where claims are studied, a fraction of their size."""
    runs = tiny_runs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_bars, "CoveredSettings", lambda: CoveredSettings(battles=2_000))
        return {name: row(runs) for name, row in ROWS.items()}


@pytest.mark.slow
def test_each_row_makes_a_bar_of_its_name_that_json_keeps(bars):
    for name, bar in bars.items():
        assert bar.name == name
        assert bar.asked
        assert bar.text
        assert bar.least is not None or bar.most is not None
    suite = SuiteResult("small", tuple(bars.values()))
    assert from_plain(SuiteResult, to_plain(suite)) == suite


def test_one_window_outside_tolerance_is_enough_to_miss(monkeypatch):
    strayed = replace(result(), outside=1, watched=100)
    monkeypatch.setattr(StudyRuns, "__call__", lambda _runs, _study, _settings, n: [strayed] * n)
    assert ROWS["fairness-8"](tiny_runs()).holds is False


def test_rows_share_their_runs():
    heard = []
    size = replace(TINY, seeds=2, votes=50)
    runs = StudyRuns(size, None, 0, lambda what, done, total: heard.append((what, done, total)))
    ROWS["contender-20"](runs)
    assert heard == [("arena", 0, 2), ("arena", 1, 2), ("arena", 2, 2)]
    ROWS["contender-20"](runs)
    assert len(heard) == 3
    settings = policy_bars._arena(runs, 20)
    assert len(runs(ARENA, settings, 3)) == 3
    assert heard[3:] == [("arena", 0, 1), ("arena", 1, 1)]


def test_kept_rows_come_back_the_same(tmp_path):
    only = ["glicko-2"]
    first = run_suite("small", folder=tmp_path, only=only)
    heard = []
    again = run_suite(
        "small", folder=tmp_path, only=only, on_progress=lambda _, done, total: heard.append((done, total))
    )
    assert again == first
    assert set(heard) == {(8, 8)}
    assert first.bars[0].holds is True
    assert first.bars[0].beside["at 0.003"] < 30
    assert first.size == "small"


def test_rows_are_named_by_first_words_and_unknown_ones_refused():
    assert bar_names(()) == tuple(ROWS)
    assert bar_names(["official"]) == ("official-20", "official-40", "official-40-scoped")
    assert bar_names(["official-40", "glicko-2"]) == ("official-40", "official-40-scoped", "glicko-2")
    assert bar_names(["planted", "dead-prompts"]) == ("dead-prompts", "planted")
    with pytest.raises(BadOption, match="speed"):
        run_suite(only=["glicko-2", "speed"])
    with pytest.raises(BadOption, match="'huge'"):
        run_suite("huge")
    with pytest.raises(BadOption, match="seeds is 0"):
        run_suite(seeds=0)


def test_seeds_replace_every_number_of_seeds():
    bar = run_suite("full", seeds=9, only=["glicko-2"]).bars[0]
    assert bar.n == 9


def test_a_full_run_with_too_few_seeds_has_no_verdict(monkeypatch):
    found = []

    def run(settings, seed):
        found.append(seed)
        return policy_bars.RdSettings()

    few = StudyRuns(SIZES["full"], None, 0, lambda *_: None)
    assert not policy_bars._decides(few, 23)
    assert policy_bars._decides(few, 24)
    assert not policy_bars._decides(few, 99, policy_bars.MIN_PAIRED_SEEDS)
    assert not policy_bars._decides(tiny_runs(), 24)
    few(Study("count", 1, run, RdSettings), RdSettings(), 2)
    few(Study("count", 1, run, RdSettings), RdSettings(), 4)
    assert found == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("value", "least", "most", "holds"),
    [
        (0.5, None, 0.5, True),
        (0.6, None, 0.5, False),
        (0.5, 0.5, None, True),
        (0.4, 0.5, None, False),
        (0.4, 0.3, 0.5, True),
        (0.6, 0.3, 0.5, False),
        (0.2, 0.3, 0.5, False),
    ],
)
def test_a_bar_holds_between_its_bounds(value, least, most, holds):
    asked = BarThreshold(least=least, most=most)
    bar = make_bar("x", "x", MeanFigure(value, 0.1, 24), asked=asked, decides=True)
    assert bar.holds is holds
    assert bar.low < value < bar.high
    assert make_bar("x", "x", MeanFigure(value, 0.1, 24), asked=asked, decides=False).holds is None


def test_a_suite_holds_unless_a_bar_is_missed():
    def bar(holds):
        return PolicyBar("x", "x", 1.0, 0.0, 2.0, None, 2.0, "at most 2", holds, 24)

    assert SuiteResult("full", (bar(True), bar(None))).holds
    assert not SuiteResult("full", (bar(True), bar(False))).holds


@pytest.mark.slow
def test_the_clustered_interval_covers_where_the_battle_level_one_does_not():
    wide = CoveredSettings(WorldSettings(models=10, prompts=20, effect_sd=1.0), battles=20_000)
    shares = [measure_coverage(wide, seed) for seed in range(12)]
    assert sum(one.by_prompt for one in shares) / 12 > 0.85
    assert sum(one.by_battle for one in shares) / 12 < 0.6


def test_rd_of_equal_models_stops_near_60_with_the_textbooks_volatility():
    assert RD.run(RdSettings(), 0).rd == pytest.approx(60.5, abs=1.0)
    assert RD.run(RdSettings(models=5), 0).rd == pytest.approx(66.0, abs=6.0)
