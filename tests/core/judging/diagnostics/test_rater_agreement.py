"""Krippendorff's α and agreeing pairs, against an independent library, by hand, and at their edges."""

from itertools import permutations

import krippendorff
import numpy as np
import pytest

from tiltyard.core.judging.diagnostics.rater_agreement import (
    AgreementGap,
    AgreementScale,
    RaterValue,
    RaterVotes,
    alpha_of,
    rater_agreement,
)
from tiltyard.errors import BadOption

MIRRORED = np.array([2, 1, 0, 3])


def votes_of(rows):
    """Votes from rows of item, prompt, rater, value."""
    columns = np.array(list(rows), dtype=np.int64).reshape(-1, 4).T
    return RaterVotes(*columns)


def random_votes(rng, items=40, raters=5, missing=0.4, values=4):
    rows = [
        (item, item // 4, rater, rng.integers(values))
        for item in range(items)
        for rater in range(raters)
        if rng.random() >= missing
    ]
    return votes_of(rows)


def matrix_of(votes, mask=None):
    """Raters by items, as the library wants them; NaN for a missing vote."""
    chosen = votes if mask is None else votes.where(mask)
    matrix = np.full((int(votes.rater.max()) + 1, int(votes.item.max()) + 1), np.nan)
    matrix[chosen.rater, chosen.item] = chosen.value
    return matrix


def both_sides(matrix):
    mirrored = np.where(np.isnan(matrix), np.nan, MIRRORED[np.nan_to_num(matrix).astype(int)])
    return np.hstack([matrix, mirrored])


@pytest.mark.parametrize(("seed", "missing"), [(0, 0.0), (1, 0.3), (2, 0.7), (3, 0.7)])
def test_alpha_is_that_of_the_library(seed, missing):
    votes = random_votes(np.random.default_rng(seed), missing=missing)
    expected = krippendorff.alpha(both_sides(matrix_of(votes)), level_of_measurement="nominal")
    assert rater_agreement(votes).alpha.value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_ordinal_alpha_is_that_of_the_library_without_both_bad(seed):
    votes = random_votes(np.random.default_rng(seed))
    scaled = matrix_of(votes, votes.value != RaterValue.BOTH_BAD)
    expected = krippendorff.alpha(both_sides(scaled), level_of_measurement="ordinal")
    found = rater_agreement(votes, scale=AgreementScale.ORDINAL)
    assert found.alpha.value == pytest.approx(expected, abs=1e-9)
    assert found.votes == int((votes.value != RaterValue.BOTH_BAD).sum())


@pytest.mark.parametrize("seed", range(2))
def test_alpha_of_one_rater_is_that_of_its_pairs(seed):
    votes = random_votes(np.random.default_rng(seed))
    matrix = matrix_of(votes)
    dyads = [
        (matrix[2, item], matrix[other, item])
        for item in range(matrix.shape[1])
        for other in (0, 1, 3, 4)
        if not np.isnan(matrix[[2, other], item]).any()
    ]
    expected = krippendorff.alpha(both_sides(np.array(dyads).T), level_of_measurement="nominal")
    found = rater_agreement(votes, rater=2)
    assert found.alpha.value == pytest.approx(expected, abs=1e-9)
    assert found.pairs == len(dyads)
    assert found.share.value == pytest.approx(np.mean([one == other for one, other in dyads]))


def test_the_plain_matrix_gives_the_published_example():
    """Krippendorff 2011, section C: four observers with missing data, 0.743 nominal and 0.815 ordinal."""
    data = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]
    matrix = np.array([[np.nan if mark == "." else int(mark) - 1 for mark in row] for row in data])
    total = np.zeros((5, 5))
    for column in matrix.T:
        said = column[~np.isnan(column)].astype(int)
        for one, other in permutations(said, 2):
            total[one, other] += 1.0 / (len(said) - 1)
    for scale, published in ((AgreementScale.NOMINAL, 0.743), (AgreementScale.ORDINAL, 0.815)):
        expected = krippendorff.alpha(matrix, level_of_measurement=scale.value)
        assert alpha_of(total, scale) == pytest.approx(expected, abs=1e-9)
        assert alpha_of(total, scale) == pytest.approx(published, abs=5e-4)


def test_sides_and_the_names_of_models_change_nothing():
    rng = np.random.default_rng(3)
    votes = random_votes(rng)
    flipped = np.isin(votes.item, np.flatnonzero(rng.random(40) < 0.5))
    value = np.where(flipped, MIRRORED[votes.value], votes.value)
    other = rater_agreement(RaterVotes(votes.item, votes.prompt, votes.rater, value))
    assert other == rater_agreement(votes)


def test_agreeing_pairs_by_hand():
    rows = [(0, 0, rater, value) for rater, value in enumerate([0, 0, 2])]
    rows += [(1, 1, 0, 1), (1, 1, 1, 1), (2, 2, 0, 3)]
    found = rater_agreement(votes_of(rows))
    assert (found.items, found.pairs, found.prompts, found.votes) == (2, 4, 2, 6)
    assert found.share.value == pytest.approx(2 / 4)


def test_few_prompts_or_one_with_nearly_all_votes_have_no_interval():
    rows = [(item, item // 10, rater, (item + rater) % 3) for item in range(40) for rater in range(2)]
    three = rater_agreement(votes_of(row for row in rows if row[1] < 3))
    assert three.alpha.value is not None
    assert three.share.value is not None
    assert (three.alpha.low, three.alpha.high, three.alpha.gap) == (None, None, AgreementGap.FEW_PROMPTS)
    assert three.share.gap is AgreementGap.FEW_PROMPTS
    four = rater_agreement(votes_of(rows))
    assert four.alpha.low is not None
    assert four.alpha.gap is None
    rows = [(item, 0 if item < 90 else item, rater, item % 3) for item in range(100) for rater in range(2)]
    assert rater_agreement(votes_of(rows)).alpha.gap is AgreementGap.FEW_PROMPTS


def test_full_agreement_is_neither_certain_nor_missing_variation():
    rows = [(item, item // 6, rater, item % 3) for item in range(48) for rater in range(2)]
    found = rater_agreement(votes_of(rows))
    assert (found.alpha.value, found.alpha.high) == (1.0, 1.0)
    assert found.share.value == 1.0
    assert 0.2 < found.alpha.low < 0.9
    assert 0.4 < found.share.low < 0.9
    # All say "first": the library has no figure for the plain matrix, but sides are an accident.
    found = rater_agreement(votes_of((item, item, rater, 0) for item in range(8) for rater in range(2)))
    assert found.alpha.value == 1.0


@pytest.mark.parametrize(
    ("rows", "gap"),
    [
        ([], AgreementGap.NO_VOTES),
        ([(item, item, 0, item % 4) for item in range(9)], AgreementGap.ONE_RATER),
        ([(item, item, item % 2, item % 4) for item in range(9)], AgreementGap.NO_OVERLAP),
    ],
)
def test_what_cannot_be_computed_has_no_number_and_says_why(rows, gap):
    found = rater_agreement(votes_of(rows))
    for figure in (found.alpha, found.share):
        assert (figure.value, figure.low, figure.high, figure.gap) == (None, None, None, gap)
    assert (found.items, found.pairs, found.prompts) == (0, 0, 0)


@pytest.mark.parametrize("value", [RaterValue.TIE, RaterValue.BOTH_BAD])
def test_without_variation_there_is_no_alpha_but_a_share(value):
    found = rater_agreement(votes_of((item, item, rater, value) for item in range(8) for rater in range(2)))
    assert (found.alpha.value, found.alpha.gap) == (None, AgreementGap.NO_VARIATION)
    assert found.share.value == 1.0


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_an_impossible_level_is_refused(level):
    with pytest.raises(BadOption, match="level"):
        rater_agreement(votes_of([]), level=level)
