"""The policy's constants: what is refused, and the fairness that follows from them."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.policy.state.exposure_window import ExposureTargets
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import BadOption


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lane_weights", (0.5, 0.5)),
        ("lane_weights", (1.2, -0.2, 0.0, 0.0)),
        ("lane_weights", (math.nan, 0.3, 0.3, 0.4)),
        ("lane_weights", (0.4, 0.3, 0.2, 0.2)),
        ("lane_weights", ("1", 0, 0, 0)),
        ("fairness", "loose"),
        ("uncertainty", "glicko"),
        ("phase", 0),
        ("phase", 5),
        ("window", 0),
        ("window", 1_000_001),
        ("meetings", -1),
        ("patience", 0),
        ("draws", math.nan),
        ("draws", 1.5),
        ("draws", True),
        ("repeats", 0),
        ("tolerance", -0.1),
        ("guard", math.nan),
        ("session_pairs", -1),
        ("stable_coverage", 1.5),
        ("settled_alpha", -0.01),
        ("settled_alpha", 0.0),
        ("stable_rd", 0.0),
        ("top_prompt_floor", 1),
        ("free_prompts", 1),
        ("form_votes", 201),
    ],
)
def test_nonsense_is_refused_by_name(name, value):
    with pytest.raises(BadOption) as caught:
        Policy(**{name: value})
    assert caught.value.option == name


def test_the_constants_are_those_of_the_ranking_policy():
    assert asdict(Policy()) == {
        "phase": 4,
        "lane_weights": (0.4, 0.3, 0.2, 0.1),
        "draws": 8,
        "contenders": 8,
        "challengers": 8,
        "window": 2000,
        "fairness": "strict",
        "uncertainty": "standard-error",
        "tolerance": 0.12,
        "tolerance_least": 2.0,
        "guard": 0.02,
        "guard_least": 1.0,
        "settling": 5,
        "prompt_floor": 2,
        "top_prompt_floor": 4,
        "patience": 3,
        "pair_floor": 2,
        "adjacent_votes": 12,
        "adjacent_prompts": 6,
        "adjacent_attempts": 36,
        "repeats": 2,
        "meetings": 10,
        "session_pairs": 5,
        "sessions_kept": 100_000,
        "established_votes": 80,
        "established_coverage": 0.8,
        "established_rd": 90.0,
        "stable_rd": 75.0,
        "stable_coverage": 0.9,
        "published_top": 10,
        "published_rd": 75.0,
        "published_pairs": 0.8,
        "published_coverage": 0.9,
        "evaluated_every": 250,
        "evaluations": 3,
        "settled_alpha": 0.05,
        "both_bad_bar": 0.25,
        "both_bad_over": 200,
        "form_votes": 20,
        "free_prompts": False,
    }


@pytest.mark.parametrize(("prompts", "repeats"), [(0, 11), (1, 11), (2, 6), (3, 5), (4, 4), (5, 2), (100, 2)])
def test_how_often_a_prompt_may_come_back(prompts, repeats):
    """At most 2 in 10 meetings from 5 prompts on, else ⌈10/P⌉ + 1."""
    assert Policy().repeats_of(prompts) == repeats


@pytest.mark.parametrize(
    ("target", "tolerance", "guard"),
    [
        (0.0, 2.0, 1.0),
        (16.0, 2.0, 1.0),
        (20.0, 2.4, 1.0),
        (100.0, 12.0, 2.0),
    ],
)
def test_samples_of_tolerance_and_guard(target, tolerance, guard):
    """Tolerance max(12 % of T, 2); guard min(max(2 % of T, 1), half the tolerance)."""
    due = ExposureTargets.of(np.array([target]), Policy())
    assert due.tolerance[0] == pytest.approx(tolerance)
    assert due.guard[0] == pytest.approx(guard)


@pytest.mark.parametrize(
    ("exposures", "starved", "capped", "lag", "outside"),
    [
        (87, 3.0, False, 0.13, True),
        (88, 2.0, False, 0.12, False),
        (109, -19.0, False, -0.09, False),
        (110, -20.0, True, -0.10, False),
        (112, -22.0, True, -0.12, False),
        (113, -23.0, True, -0.13, True),
        (300, -210.0, True, -1.0, True),
    ],
)
def test_samples_of_what_the_controller_sees(exposures, starved, capped, lag, outside):
    """At a target of 100: tolerance 12, guard 2."""
    due, seen = ExposureTargets.of(np.array([100.0]), Policy()), np.array([exposures])
    assert due.starved(seen)[0] == pytest.approx(starved)
    assert due.capped(seen)[0] == capped
    assert due.lag(seen)[0] == pytest.approx(lag)
    assert due.outside(seen)[0] == outside


@given(
    st.floats(0.0, 1e6), st.floats(0.0, 2.0), st.floats(0.0, 10.0), st.floats(0.0, 2.0), st.floats(0.0, 10.0)
)
def test_the_guards_always_leave_room_between_them(target, tolerance, tolerance_least, guard, guard_least):
    policy = Policy(
        tolerance=tolerance, tolerance_least=tolerance_least, guard=guard, guard_least=guard_least
    )
    due = ExposureTargets.of(np.array([target]), policy)
    assert 0.0 <= due.guard[0] <= due.tolerance[0] / 2.0
    inside = np.array([round(target)])
    assert -1.0 <= due.lag(inside)[0] <= 1.0
