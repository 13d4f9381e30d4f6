"""Pairs that met often do not outweigh the others, when asked for."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from support.worlds import batch, drawn, styled, table
from tiltyard.core.battles import Kind, Table, TableBuilder
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.bradley_terry import weigh_pairs_evenly
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.errors import BadOption

UNIT = 400.0 / math.log(10.0)


def crowded(n=900, seed=3):
    """Battles of which half are those of one pair, and some have no winner but two bad responses."""
    codes = drawn(4, n, seed)
    half = n // 2
    a, b, kind = codes.a.copy(), codes.b.copy(), codes.kind.copy()
    a[:half], b[:half] = 0, 1
    kind[::7] = Kind.BOTH_BAD
    return replace(codes, a=a, b=b, kind=kind)


def factors(codes, scoring, enough):
    """By loops: one over the battles of the pair, or over what is enough; one in the mean."""
    counted = ~np.isnan(scoring.of(codes))
    keys = [frozenset((int(a), int(b))) for a, b in zip(codes.a, codes.b, strict=True)]
    met = {key: sum(k == key and c for k, c in zip(keys, counted, strict=True)) for key in set(keys)}
    factor = np.array([1.0 / max(met[key], enough) for key in keys])
    return factor / factor[counted].mean()


@pytest.mark.parametrize(("both_bad", "enough"), [("drop", 1), ("tie", 60), ("drop", 10_000)])
def test_every_pair_with_enough_battles_weighs_the_same(both_bad, enough):
    codes, scoring = crowded(), Scoring(both_bad=both_bad)
    even = weigh_pairs_evenly(table(codes), scoring, enough).log()
    counted = ~np.isnan(scoring.of(codes))
    np.testing.assert_allclose(even.weight[counted], factors(codes, scoring, enough)[counted], rtol=2.0**-15)


def test_without_a_pair_nothing_is_weighed():
    nothing = table(replace(crowded(), kind=np.full(900, Kind.BOTH_BAD, np.uint8)))
    assert weigh_pairs_evenly(nothing, Scoring(), 50) is nothing


def test_a_log_that_is_read_again_is_weighed_at_every_scan():
    codes = crowded()
    builder = TableBuilder(keep_log=False)
    builder.add(batch(codes, 4))
    again = builder.table(reread=lambda: [batch(codes, 4)])
    method = BradleyTerry(even_pairs=50, max_share=None)
    np.testing.assert_allclose(method(again).rating, method(table(codes)).rating, rtol=0, atol=1e-9)


def penalised(codes, z, enough, penalty):
    """The maximum of the mean weighted log-likelihood less the penalty, by a library's optimiser."""
    scoring = Scoring(both_bad="tie")
    y, w = scoring.of(codes), factors(codes, scoring, enough)
    z = z - z.mean(axis=0)
    z = z / np.sqrt((z**2).mean(axis=0))

    def loss(x):
        logit = x[codes.a] - x[codes.b] + z @ x[4:]
        return -np.mean(w * (y * logit - np.logaddexp(0.0, logit))) + 0.5 * penalty * (x[4:] @ x[4:])

    found = minimize(loss, np.zeros(4 + z.shape[1]), method="BFGS", options={"gtol": 1e-10}).x
    return UNIT * (found[:4] - found[:4].mean()), found[4:]


def test_ratings_and_coefficients_are_those_of_the_penalised_likelihood():
    codes = crowded()
    z = np.random.default_rng(5).normal(0.3, 2.0, (len(codes), 2))
    longer = np.random.default_rng(6).random(len(codes)) < 0.5
    kind = np.where(longer, np.where(z[:, 0] > 0, Kind.WIN_A, Kind.WIN_B), codes.kind).astype(np.uint8)
    codes = replace(codes, kind=kind)
    for penalty in (0.0, 1.0):
        method = BradleyTerry(
            both_bad="tie",
            max_share=None,
            even_pairs=50,
            style=True,
            style_penalty=penalty,
            style_centred=True,
        )
        found = method(styled(codes, z))
        rating, coefficients = penalised(codes, z, 50, penalty)
        np.testing.assert_allclose(found.rating - 1500.0, rating, rtol=0, atol=0.02)
        np.testing.assert_allclose(list(found.extras["style"].values()), coefficients, rtol=0, atol=1e-4)


def test_a_log_that_is_read_again_is_centred_at_every_scan():
    codes = crowded(n=300)
    z = np.random.default_rng(5).normal(0.3, 2.0, (len(codes), 2))
    world = styled(codes, z)
    np.testing.assert_allclose(world.centred().log().covariates.mean(axis=0), 0.0, atol=1e-12)
    again = replace(world, _log=None, _reread=lambda: [batch(replace(codes, covariates=z), 4)])
    np.testing.assert_allclose(again.centred().log().covariates, z - z.mean(axis=0), atol=1e-12)
    weighed = again.centred().reweighted(lambda run: np.full(len(run), 2.0)).log()
    np.testing.assert_allclose(weighed.covariates, z - z.mean(axis=0), atol=1e-12)
    assert weighed.weight.tolist() == [2.0] * 300


def test_two_bad_responses_are_a_tie_only_where_asked_for():
    codes = crowded()
    tied = replace(codes, kind=np.where(codes.kind == Kind.BOTH_BAD, Kind.TIE, codes.kind).astype(np.uint8))
    asked = BradleyTerry(both_bad="tie")(table(codes))
    np.testing.assert_array_equal(asked.rating, BradleyTerry()(table(tied)).rating)
    assert asked.record.both_bad.sum() == 2 * np.count_nonzero(codes.kind == Kind.BOTH_BAD)
    dropped = Table.from_codes(("a", "b", "c", "d"), codes)
    assert BradleyTerry(both_bad="tie", ties="drop")(dropped).rating.tolist() == (
        BradleyTerry(ties="drop")(dropped).rating.tolist()
    )
    flagged = replace(codes, kind=np.array([Kind(k).with_flag for k in codes.kind], np.uint8))
    np.testing.assert_array_equal(BradleyTerry(both_bad="tie")(table(flagged)).rating, asked.rating)


@pytest.mark.parametrize(
    "bad", [{"both_bad": "half"}, {"even_pairs": 0}, {"style_penalty": -1.0}, {"style_penalty": math.inf}]
)
def test_impossible_parameters_are_refused(bad):
    with pytest.raises(BadOption):
        BradleyTerry(**bad)(table(crowded(n=50)))
