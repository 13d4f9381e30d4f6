"""What labels say of a judge, against counting by hand and against worlds whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tiltyard.core.judging.diagnostics.label_agreement import (
    FIRST,
    SECOND,
    TIE,
    Labelled,
    label_agreement,
    mean_lead,
    people_agreement,
    verdict_worth,
)
from tiltyard.core.judging.diagnostics.rater_agreement import AgreementGap


def _labelled(rng, matches=60, prompts=20, strata=2, raters=1):
    stratum = np.sort(rng.integers(0, strata, matches))
    judged = rng.integers(0, 3, matches)
    said = np.where(
        rng.random((matches, raters)) < 0.6, judged[:, None], rng.integers(0, 3, (matches, raters))
    )
    votes = np.stack([(said == kind).sum(axis=1) for kind in range(3)], axis=1).astype(float)
    _, prompt = np.unique(rng.integers(0, prompts, matches), return_inverse=True)
    return Labelled(np.array([500.0, 100.0, 50.0])[:strata], stratum, prompt, judged, votes), said


def test_figures_are_what_weighing_one_by_one_gives():
    labelled, said = _labelled(np.random.default_rng(3))
    weights = [labelled.sizes[s] / np.sum(labelled.stratum == s) for s in labelled.stratum]
    table = np.zeros((3, 3))
    for weight, judged, (person,) in zip(weights, labelled.judged, said, strict=True):
        table[judged, person] += weight / sum(weights)
    agreed, chance = np.trace(table), table.sum(axis=1) @ table.sum(axis=0)
    scores = [1, -1, 0]
    both = sum(table[j, p] * scores[j] * scores[p] for j in range(3) for p in range(3))
    spread = math.sqrt((1 - table[TIE].sum()) * (1 - table[:, TIE].sum()))
    found = label_agreement(labelled)
    assert found.agreed.value == pytest.approx(agreed)
    assert found.kappa.value == pytest.approx((agreed - chance) / (1 - chance))
    assert found.correlation.value == pytest.approx(max(both / spread, 0) ** 2)
    assert np.array(found.matrix) == pytest.approx(table)


def test_leaving_out_a_prompt_is_drawing_without_it():
    labelled, _ = _labelled(np.random.default_rng(4))
    without = labelled.without_each_prompt(labelled.cells)
    for prompt in range(int(labelled.prompt.max()) + 1):
        kept = labelled.prompt != prompt
        rest = Labelled(
            labelled.sizes,
            labelled.stratum[kept],
            labelled.prompt[kept],
            labelled.judged[kept],
            labelled.votes[kept],
        )
        assert without[prompt] == pytest.approx(np.einsum("m,mij->ij", rest.weights, rest.cells))


def test_names_of_models_do_not_move_alpha_and_correlation():
    labelled, _ = _labelled(np.random.default_rng(5))
    turn = np.random.default_rng(6).random(len(labelled.judged)) < 0.5
    swapped = np.array([SECOND, FIRST, TIE])
    other = Labelled(
        labelled.sizes,
        labelled.stratum,
        labelled.prompt,
        np.where(turn, swapped[labelled.judged], labelled.judged),
        np.where(turn[:, None], labelled.votes[:, swapped], labelled.votes),
    )
    one, two = label_agreement(labelled), label_agreement(other)
    assert one.alpha.value == pytest.approx(two.alpha.value)
    assert one.correlation.value == pytest.approx(two.correlation.value)


def test_people_who_always_agree_leave_room_for_doubt():
    rng = np.random.default_rng(7)
    judged = rng.integers(0, 3, 40)
    labelled = Labelled(np.array([400.0]), np.zeros(40, dtype=int), np.arange(40), judged, np.eye(3)[judged])
    found = label_agreement(labelled)
    assert found.agreed.value == found.agreed.high == pytest.approx(1.0)
    assert 0.85 < found.agreed.low < 0.95


def test_one_disagreement_in_a_small_stratum_says_little():
    stratum, judged = np.repeat([0, 1], [90, 10]), np.arange(100) % 2
    people = np.eye(3)[np.where(np.arange(100) == 99, 1 - judged, judged)]
    for size in (12.0, 1_000.0):
        labelled = Labelled(np.array([100_000.0 - size, size]), stratum, np.arange(100), judged, people)
        assert 0.9 < label_agreement(labelled).agreed.low < 0.97


def test_people_agree_on_all_matches_wherever_two_of_them_labelled():
    # They agree on the first stratum and never on the second, of which more was labelled twice.
    votes = np.repeat([[2.0, 0, 0], [1, 0, 0], [1, 1, 0]], [10, 40, 50], axis=0)
    labelled = Labelled(
        np.array([900.0, 100.0]),
        np.repeat([0, 1], 50),
        np.arange(100) // 2,
        np.zeros(100, dtype=int),
        votes,
    )
    found = people_agreement(labelled)
    assert found.agreed.value == pytest.approx(0.9)
    assert found.matches == 60


@pytest.mark.parametrize("count", [20, 50])
def test_the_correlation_of_a_judge_that_never_erred_may_be_less(count):
    # Of 20 labels, all agree by chance in a third of the draws even if one in twenty people says the opposite.
    judged = np.arange(count) % 2
    labelled = Labelled(
        np.array([400.0]), np.zeros(count, dtype=int), np.arange(count), judged, np.eye(3)[judged]
    )
    found = label_agreement(labelled)
    assert found.correlation.value == found.correlation.high == pytest.approx(1.0)
    assert found.correlation.low == pytest.approx((2.0 * found.agreed.low - 1.0) ** 2)


def test_a_judge_that_says_the_opposite_has_no_correlation():
    judged = np.arange(30) % 2
    for prompts in (3, 30):
        labelled = Labelled(
            np.array([400.0]), np.zeros(30, dtype=int), np.arange(30) % prompts, judged, np.eye(3)[1 - judged]
        )
        assert label_agreement(labelled).correlation.value == 0.0


def test_pairs_of_people_need_two_of_them():
    one, _ = _labelled(np.random.default_rng(8))
    assert people_agreement(one).agreed.gap is AgreementGap.NO_VOTES
    several, said = _labelled(np.random.default_rng(8), raters=3)
    pairs = [np.mean([a == b for k, a in enumerate(row) for b in np.delete(row, k)]) for row in said]
    assert people_agreement(several).agreed.value == pytest.approx(
        float(several.weights @ pairs / several.weights.sum())
    )


def test_a_few_prompts_give_no_interval():
    labelled, _ = _labelled(np.random.default_rng(9), matches=30, prompts=3)
    found = label_agreement(labelled)
    assert found.agreed.gap is AgreementGap.FEW_PROMPTS
    assert found.agreed.value is not None
    assert found.agreed.low is None


def test_matches_of_which_none_was_labelled_leave_no_interval_for_all():
    labelled, _ = _labelled(np.random.default_rng(9))
    part = Labelled(
        np.append(labelled.sizes, 9.0), labelled.stratum, labelled.prompt, labelled.judged, labelled.votes
    )
    found = label_agreement(part)
    for figure in (found.agreed, found.kappa, found.correlation):
        assert figure.low is None
        assert figure.gap is AgreementGap.NO_VOTES
    assert label_agreement(part, part.stratum == 0).agreed.low is not None


def test_a_judge_that_loves_length_is_told_from_one_that_does_not():
    rng = np.random.default_rng(10)
    side = rng.choice([-1.0, 1.0], 300)
    people = rng.integers(0, 2, 300)
    lover = np.where(rng.random(300) < 0.5, np.where(side > 0, FIRST, SECOND), people)
    for judged, favours in ((lover, True), (np.where(rng.random(300) < 0.8, people, 1 - people), False)):
        labelled = Labelled(
            np.array([3000.0]), np.zeros(300, dtype=int), np.arange(300), judged, np.eye(3)[people]
        )
        found = mean_lead(labelled, side)
        assert (found.high < 0.0) is favours


def test_a_side_that_never_occurs_has_no_figure():
    labelled, _ = _labelled(np.random.default_rng(11))
    nothing = np.zeros(len(labelled.judged))
    assert mean_lead(labelled, nothing).gap is AgreementGap.NO_VOTES
    assert mean_lead(labelled, nothing + 1.0, nothing).gap is AgreementGap.NO_VOTES


@pytest.mark.parametrize("raters", [1, 3])
def test_intervals_hold_what_all_matches_say(raters):
    rng = np.random.default_rng(12 + raters)
    held, n = np.zeros(4), 200
    for _ in range(n):
        everything, _ = _labelled(rng, matches=600, prompts=150, raters=raters)
        whole = Labelled(
            np.bincount(everything.stratum).astype(float),
            everything.stratum,
            everything.prompt,
            everything.judged,
            everything.votes,
        )
        drawn = np.concatenate([rng.permutation(np.flatnonzero(whole.stratum == s))[:40] for s in range(2)])
        _, prompt = np.unique(whole.prompt[drawn], return_inverse=True)
        sample = Labelled(whole.sizes, whole.stratum[drawn], prompt, whole.judged[drawn], whole.votes[drawn])
        truth, found = label_agreement(whole), label_agreement(sample)
        for k, name in enumerate(("agreed", "kappa", "alpha", "correlation")):
            figure = getattr(found, name)
            held[k] += figure.low <= getattr(truth, name).value <= figure.high
    assert (held / n >= 0.92).all()


@pytest.mark.parametrize(("noise", "worth"), [(1.0, 1.0), (0.0, 2.0), (3.0, 0.2)])
def test_a_verdict_of_a_judge_as_good_as_a_person_is_worth_a_vote(noise, worth):
    rng = np.random.default_rng(13)
    values, held = [], 0
    for _ in range(60):
        quality = rng.normal(0.0, 1.0, 300)
        looks = quality[:, None] + rng.normal(0.0, 1.0, (300, 2))
        judged = (quality + rng.normal(0.0, 1.0, 300) * noise > 0.0).astype(int)
        votes = np.stack([(looks < 0.0).sum(axis=1), (looks > 0.0).sum(axis=1), np.zeros(300)], axis=1)
        labelled = Labelled(
            np.array([3000.0]), np.zeros(300, dtype=int), np.arange(300), judged, votes[:, [0, 1, 2]]
        )
        found = verdict_worth(labelled)
        values.append(found.value)
        held += found.low <= worth <= found.high
    assert np.median(values) == pytest.approx(worth, rel=0.25)
    if noise == 1.0:
        assert held >= 54


def test_the_worth_of_a_verdict_needs_two_people_on_a_match():
    assert verdict_worth(_labelled(np.random.default_rng(14))[0]).gap is AgreementGap.NO_OVERLAP
