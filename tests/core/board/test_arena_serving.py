"""What a board says of fairness and lanes."""

import pytest

from support.boarded_arenas import arena
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.validity.serving_fairness import measure_serving, serving_findings


def test_before_any_matchup_nothing_is_said_of_exposures():
    serving = measure_serving(arena([1500, 1500]))
    assert (serving.widest, serving.deviation, serving.within) == (None, None, None)
    assert (serving.steered, serving.settled, serving.lanes.matchups) == (False, False, 0)
    assert serving_findings(serving, 2) == ()


def test_the_model_that_strays_furthest_is_named_with_its_share():
    standing = arena([1500] * 3)
    for _ in range(30):
        standing.serve(0, 1, 0)
    serving = measure_serving(standing)
    assert (serving.widest.model, serving.widest.exposures, serving.widest.target) == ("m2", 0, 20.0)
    assert serving.deviation == -1.0
    assert (serving.within, serving.steered, serving.settled) == (False, True, False)
    assert serving_findings(serving, 3) == ()


def test_where_voters_write_prompts_no_exposures_are_published():
    """They count open battles: from one board to the next they would tell which models answer somebody."""
    standing = arena([1500] * 3, free_prompts=True)
    standing.serve(0, 1, 0)
    serving = measure_serving(standing)
    assert (serving.widest, serving.deviation, serving.within) == (None, None, None)
    assert serving.lanes.matchups == 1


def test_a_model_that_came_after_all_matchups_has_no_share_yet():
    standing = arena([1500] * 2)
    standing.serve(0, 1, 0)
    standing.retire(0)
    standing.retire(1)
    standing.widen(["m0", "m1", "m2"], standing.prompts)
    standing.enable(2)
    serving = measure_serving(standing)
    assert (serving.widest.model, serving.deviation, serving.within) == ("m2", None, True)


def test_a_settled_window_outside_tolerance_asks_for_a_look():
    standing = arena([1500] * 3, window=30)
    for _ in range(30):
        standing.serve(0, 1, 0)
    serving = measure_serving(standing)
    assert serving.settled
    (finding,) = serving_findings(serving, 3)
    assert finding.name == "outside-tolerance"
    assert finding.values["model"] == "m2"


def test_lanes_drawn_and_lanes_that_chose_are_told_apart():
    standing = arena([1500] * 3)
    standing.serve(0, 1, 0, lane=Lane.COVERAGE, nominal=Lane.CONTENDER)
    standing.serve(0, 1, 0, lane=Lane.COVERAGE)
    standing.serve(0, 2, 0, lane=Lane.EXPLORATION)
    lanes = measure_serving(standing).lanes
    assert [(one.lane, one.target, one.nominal, one.realised) for one in lanes.lanes] == [
        ("coverage", 0.4, 1, 2),
        ("contender", 0.3, 1, 0),
        ("uncertainty", 0.2, 0, 0),
        ("exploration", 0.1, 1, 1),
    ]
    assert (lanes.matchups, lanes.gave_way) == (3, 1)


@pytest.mark.parametrize(
    ("models", "fairness", "feasible"),
    [(20, "strict", True), (32, "strict", True), (33, "strict", False), (100, "scoped", True)],
)
def test_whether_the_contender_share_can_be_had_depends_on_the_number_of_models(models, fairness, feasible):
    serving = measure_serving(arena([1500] * models, fairness=fairness, prompts=1))
    assert serving.lanes.feasible is feasible
    names = [finding.name for finding in serving_findings(serving, models)]
    assert names == ([] if feasible else ["mix-infeasible"])
