"""Which sessions vote unlike honest voters on the same pairs would.

Each session is compared with what the ratings of all votes say of the very pairs that it was shown, so that nobody is
flagged for what they were served. Three tests: how likely its votes are, whether it prefers a side, and whether it
prefers or avoids one model. Voters have tastes: how far honest ones differ is taken off first, and whoever is flagged
is still only unlike others. A session with few votes is never flagged: for many such sessions that act together see
`crowd_drift`.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field

import numpy as np

from tiltyard.core.ratings.newton import expected_score, fit_pairs
from tiltyard.core.ratings.pairs import pairs_by_sorting, sum_by_index, tie_share
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: Fewer votes of a session than this show nothing.
_LEAST_VOTES = 10
#: Beyond so many standard deviations a session is flagged; a model is one of many that might have been.
_DEVIATION_LIMIT = 4.0
_MODEL_DEVIATION_LIMIT = 4.5
#: A model is named if its results are so much of everything that was not expected of a session.
_NAMED_SHARE = 0.5
#: In logits: how far honest voters differ about a model, or prefer a side.
_TASTE_LOGITS = 0.5
_SIDE_LOGITS = 0.35
#: By how much, in logits for each vote, tastes make honest votes less likely than ratings say.
_TASTE_LOSS_LOGITS = 0.04
_PRIOR_WEIGHT = 0.25
#: A model with fewer votes that count is rated by all votes.
_REFERENCE_VOTES = 50
#: A session's votes on a model weigh no more than those of this share of sessions with votes on one.
_USUAL_SHARE = 0.75
_LEAST_PROBABILITY = 1e-12


class VoterTest(enum.StrEnum):
    """What is unusual about a session's votes."""

    #: They are less likely than those of honest voters.
    UNLIKELY = "unlikely"
    #: One side wins too often.
    SIDE = "side"
    #: One model wins, or loses, too often.
    MODEL = "model"
    #: Matchups with one model are skipped too often, or all others are.
    SKIPS = "skips"
    #: Most votes came before both responses can have been looked at.
    HASTY = "hasty"
    #: The votes take almost the same time each.
    REGULAR = "regular"
    #: Several sessions vote at the same intervals.
    IN_STEP = "in-step"
    #: More sessions than chance explains vote for one model, or against it, whenever it is shown to them.
    TOGETHER = "together"


@dataclass(frozen=True, slots=True, eq=False)
class SessionVotes:
    """Votes that rate somebody: sessions and models by number, and A's result (1, ½ or 0)."""

    session: Ints
    a: Ints
    b: Ints
    score: Floats
    #: The votes that count already; ``None`` if all do.
    counted: Bools | None = None


@dataclass(frozen=True, slots=True)
class CountedOf:
    """The numbers behind a sign; what a test does not count is 0."""

    #: So many of so many; for skips: of matchups with the model.
    found: int = 0
    among: int = 0
    #: For skips: the same of all other matchups.
    other_found: int = 0
    other_among: int = 0
    #: Of regular times: the spread of their logarithms, and their geometric mean.
    spread: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class VoterSign:
    """A session that one of the tests flags."""

    session: int
    test: VoterTest
    votes: int
    #: How many standard deviations it is away; above 0 if side A or the model wins, or is skipped, too often.
    deviations: float
    #: For `VoterTest.MODEL`, `VoterTest.SKIPS` and `VoterTest.TOGETHER`.
    model: int | None = None
    counted: CountedOf = field(default_factory=CountedOf)


def find_unlike_voters(votes: SessionVotes, models: int) -> list[VoterSign]:
    """Sessions that are flagged, the most unusual first; each by the test that says most of it."""
    if not len(votes.session):
        return []
    sessions, place = np.unique(votes.session, return_inverse=True)
    outcomes = outcome_probabilities(votes, models)
    counts = np.bincount(place)
    signs: dict[int, VoterSign] = {}
    tests = (
        (VoterTest.MODEL, _MODEL_DEVIATION_LIMIT, _models(votes, outcomes, place, (len(sessions), models))),
        (VoterTest.SIDE, _DEVIATION_LIMIT, _sides(votes, outcomes, place)[:, None]),
        (VoterTest.UNLIKELY, _DEVIATION_LIMIT, np.minimum(_likelihood(votes, outcomes, place), 0.0)[:, None]),
    )
    for test, bar, found in tests:
        strongest = np.abs(found).argmax(axis=1)
        for one in np.flatnonzero((np.abs(found).max(axis=1) >= bar) & (counts >= _LEAST_VOTES)).tolist():
            model = int(strongest[one]) if test is VoterTest.MODEL else None
            away = float(found[one, strongest[one]])
            sign = VoterSign(int(sessions[one]), test, int(counts[one]), away, model)
            signs.setdefault(sign.session, sign)
    return sorted(signs.values(), key=lambda sign: (-abs(sign.deviations), sign.session))


def outcome_probabilities(votes: SessionVotes, models: int) -> Floats:
    """The probabilities that A wins, that the two tie and that B wins, by vote, if everybody votes like the votes that
    count: those of a campaign that wait do not move what they are compared with, and those that do move it little."""
    known = _reference(votes, models)
    a, b, score, weight = votes.a[known], votes.b[known], votes.score[known], _weights(votes, known, models)
    pairs = pairs_by_sorting(a, b, (weight, weight * score, weight * tie_share(score)), models)
    fit = fit_pairs(pairs, davidson=True, prior_precision=_PRIOR_WEIGHT, bread=False)
    expected = expected_score(fit.theta[votes.a] - fit.theta[votes.b], fit.log_tie)
    assert expected.tie is not None
    a_wins = expected.score - expected.tie / 2.0
    return np.maximum(np.stack([a_wins, expected.tie, 1.0 - a_wins - expected.tie]), _LEAST_PROBABILITY)


def _reference(votes: SessionVotes, models: int) -> Bools:
    """The votes that ratings are made from: those that count, unless a model has hardly any of them."""
    everything = np.ones(len(votes.score), dtype=np.bool_)
    if votes.counted is None:
        return everything
    shown, counted = (
        np.bincount(np.concatenate([votes.a[rows], votes.b[rows]]), minlength=models)
        for rows in (everything, votes.counted)
    )
    return votes.counted if bool((counted[shown > 0] >= _REFERENCE_VOTES).all()) else everything


def _weights(votes: SessionVotes, known: Bools, models: int) -> Floats:
    """Weights of votes by which no session says more of a model than most sessions do that vote on one."""
    cells = np.concatenate([votes.session[known] * models + side[known] for side in (votes.a, votes.b)])
    _, place, count = np.unique(cells, return_inverse=True, return_counts=True)
    usual = np.quantile(count, _USUAL_SHARE) if len(count) else 1.0
    return np.asarray(np.minimum(1.0, usual / count[place].reshape(2, -1).max(axis=0)), dtype=np.float64)


def _likelihood(votes: SessionVotes, outcomes: Floats, place: Ints) -> Floats:
    """How far the log-likelihood of each session lies below that of honest votes, in standard deviations."""
    logs = np.log(outcomes)
    kind = np.where(votes.score == 1.0, 0, np.where(votes.score == 0.0, 2, 1))
    mean = (outcomes * logs).sum(axis=0)
    variance = (outcomes * logs**2).sum(axis=0) - mean**2
    above = logs[kind, np.arange(len(kind))] - mean + _TASTE_LOSS_LOGITS
    return _standardised(_by_session(place, above), _by_session(place, variance))


def _sides(votes: SessionVotes, outcomes: Floats, place: Ints) -> Floats:
    """By how much side A wins too often, beyond what honest voters prefer a side."""
    residual, variance = _residuals(votes, outcomes)
    information = _by_session(place, variance)
    return _standardised(_by_session(place, residual), information + (_SIDE_LOGITS * information) ** 2)


def _models(votes: SessionVotes, outcomes: Floats, place: Ints, shape: tuple[int, int]) -> Floats:
    """By how much a model wins too often, beyond a taste, by session and model.

    Where one model wins more, its opponents win less: only the model that gains or loses most is told of each session,
    and only if that is most of what is unexpected.
    """
    residual, variance = _residuals(votes, outcomes)
    size = math.prod(shape)
    sums, information = np.zeros(size), np.zeros(size)
    for models, sign in ((votes.a, 1.0), (votes.b, -1.0)):
        cell = place * shape[1] + models
        sums += sum_by_index(cell, sign * residual, size)
        information += sum_by_index(cell, variance, size)
    away = _standardised(sums, information + (_TASTE_LOGITS * information) ** 2).reshape(shape)
    size_of = np.abs(sums.reshape(shape))
    told = size_of == size_of.max(axis=1, keepdims=True)
    told &= size_of >= _NAMED_SHARE * _by_session(place, np.abs(residual))[:, None]
    return np.where(told, away, 0.0)


def _residuals(votes: SessionVotes, outcomes: Floats) -> tuple[Floats, Floats]:
    """A's result less what is expected, and its variance."""
    expected = outcomes[0] + outcomes[1] / 2.0
    return votes.score - expected, outcomes[0] + outcomes[1] / 4.0 - expected**2


def _by_session(place: Ints, values: Floats) -> Floats:
    return sum_by_index(place, values, int(place.max()) + 1)


def _standardised(sums: Floats, variance: Floats) -> Floats:
    return np.asarray(sums / np.sqrt(np.maximum(variance, _LEAST_PROBABILITY)), dtype=np.float64)
