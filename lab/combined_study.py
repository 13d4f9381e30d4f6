"""``python -m lab.combined_study``: what would people's votes gain from a judge's verdicts on one combined board?

In each world people vote on some matches, and a judge has judged all matches of the same prompts, or of more. People's
Bradley–Terry ratings are corrected by prediction-powered inference (Angelopoulos et al. 2023, PPI++): the judge's mean
score over all that it judged, less that over the matches with votes, times a weight λ between 0 and 1. Errors and
intervals are compared with those of people alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from scipy.stats import t as student_t

from lab.study_pages import write_page
from tiltyard._version import __version__

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_MODELS = 8
_PAIRS = np.array(list(combinations(range(_MODELS), 2)))
#: One row for each pair: +1 for the first model, −1 for the second.
_SIDES = np.zeros((len(_PAIRS), _MODELS))
_SIDES[np.arange(len(_PAIRS)), _PAIRS[:, 0]] = 1.0
_SIDES[np.arange(len(_PAIRS)), _PAIRS[:, 1]] = -1.0
#: Leads below it are ties: about one vote in six.
_TIE_LEAD_LOGITS = 0.35
_FOLD_COUNT = 5
#: Prompts and voters beyond which the truth is not known better.
_TRUTH_DRAW_COUNT = 4000
#: Share of people's votes that the combined board must save.
SAVED_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class CombinedWorld:
    """People, a judge, and how far they see the same."""

    strength_sd: float = 1.0
    #: How far a prompt's responses differ from their models' strength, as people see it.
    prompt_sd: float = 0.5
    #: The share of that which the judge sees too, and what it sees instead.
    shared: float = 0.7
    judge_prompt_sd: float = 0.5
    judge_noise: float = 1.0
    #: How far the judge favours a model everywhere.
    judge_bias_sd: float = 0.3
    #: How far a voter's taste for a model differs from others', and the tail of voters' activity.
    voter_sd: float = 0.3
    voters: int = 100
    activity_tail: float = 3.0
    prompts: int = 100
    #: Prompts that the judge saw, for each that people saw.
    judged_prompts: int = 1
    votes: int = 1000


WORLDS = {
    "judge as a person": CombinedWorld(),
    "judge sees little of prompts": CombinedWorld(shared=0.2, judge_noise=2.0),
    "judge favours some models": CombinedWorld(judge_bias_sd=1.0),
    "heavy voters": CombinedWorld(voters=40, activity_tail=1.1, voter_sd=0.5),
    "prompts differ": CombinedWorld(prompt_sd=0.8),
    "prompts differ much": CombinedWorld(prompt_sd=1.0, judge_prompt_sd=0.3, shared=0.9),
    "all models equal": CombinedWorld(strength_sd=0.0, judge_bias_sd=0.5),
}


class Votes(NamedTuple):
    """People's votes: the prompt, pair and voter of each, and the first model's points."""

    prompt: Ints
    pair: Ints
    voter: Ints
    points: Floats

    def first(self, count: int) -> Votes:
        return Votes(self.prompt[:count], self.pair[:count], self.voter[:count], self.points[:count])


class CombinedVotes(NamedTuple):
    """What happened, and the ratings that people would give with endless prompts and voters."""

    votes: Votes
    #: As many votes, on all prompts that the judge saw.
    spread: Votes
    #: Judged prompt × pair: the first model's points, the mean of both orders.
    judged: Floats
    truth: Floats


def make_world(world: CombinedWorld, rng: np.random.Generator) -> CombinedVotes:
    """One world of this kind."""
    strength = rng.normal(0.0, world.strength_sd, _MODELS)
    judged_prompts = world.prompts * world.judged_prompts
    effects = rng.normal(0.0, world.prompt_sd, (judged_prompts, _MODELS))
    tastes = rng.normal(0.0, world.voter_sd, (world.voters, _MODELS))
    activity = rng.pareto(world.activity_tail, world.voters) + 1.0
    worth = strength + effects
    votes, spread = (
        _vote(worth[:prompts], tastes, activity, world.votes, rng)
        for prompts in (world.prompts, judged_prompts)
    )
    view = world.shared * effects + rng.normal(0.0, world.judge_prompt_sd, effects.shape)
    lead = (strength + rng.normal(0.0, world.judge_bias_sd, _MODELS) + view) @ _SIDES.T
    orders = [_points(lead + rng.normal(0.0, world.judge_noise, lead.shape)) for _ in range(2)]
    own = rng.normal(0.0, np.hypot(world.prompt_sd, world.voter_sd), (_TRUTH_DRAW_COUNT, _MODELS))
    endless = (strength + own) @ _SIDES.T
    expected = (expit(endless - _TIE_LEAD_LOGITS) + expit(endless + _TIE_LEAD_LOGITS)) / 2
    truth = fit(expected.mean(axis=0), np.ones(len(_PAIRS)))
    return CombinedVotes(votes, spread, np.mean(orders, axis=0), truth)


def _vote(worth: Floats, tastes: Floats, activity: Floats, votes: int, rng: np.random.Generator) -> Votes:
    """Votes on random pairs and prompts, by voters as active as they are."""
    voter = rng.choice(len(tastes), votes, p=activity / activity.sum())
    prompt, pair = rng.integers(len(worth), size=votes), rng.integers(len(_PAIRS), size=votes)
    lead = ((worth[prompt] + tastes[voter]) * _SIDES[pair]).sum(axis=1)
    return Votes(prompt, pair, voter, _points(lead + rng.logistic(size=votes)))


def _points(lead: Floats) -> Floats:
    return np.where(np.abs(lead) < _TIE_LEAD_LOGITS, 0.5, (lead > 0.0).astype(np.float64))


def fit(points: Floats, weights: Floats) -> Floats:
    """Strengths, with mean 0, of the mean points of each pair."""
    strengths: Floats = np.zeros(_MODELS)
    for _ in range(50):
        chance = expit(_SIDES @ strengths)
        score = _SIDES.T @ (weights * (points - chance))
        step = _inverse(_information(strengths, weights)) @ score
        strengths = strengths + step / max(1.0, float(np.abs(step).max()))
        if float(np.abs(step).max()) < 1e-9:
            break
    centred: Floats = strengths - strengths.mean()
    return centred


def _information(strengths: Floats, weights: Floats) -> Floats:
    chance = expit(_SIDES @ strengths)
    return _SIDES.T @ (_SIDES * (weights * chance * (1.0 - chance))[:, None])


def _inverse(information: Floats) -> Floats:
    """Of a matrix that leaves the mean of all strengths open."""
    return np.asarray(np.linalg.pinv(information), dtype=np.float64)


class Rated(NamedTuple):
    """Ratings, their standard errors, and the degrees of freedom of these."""

    ratings: Floats
    errors: Floats
    freedom: float


def combine(votes: Votes, judged: Floats | None, prompts: int) -> Rated:
    """People's ratings, corrected by what a judge says of these and perhaps more prompts."""
    counts = np.bincount(votes.pair, minlength=len(_PAIRS)).astype(np.float64)
    sums = np.bincount(votes.pair, votes.points, minlength=len(_PAIRS))
    strengths = fit(np.divide(sums, counts, out=np.full(len(counts), 0.5), where=counts > 0), counts)
    chance = expit(_SIDES @ strengths)
    inverse = _inverse(_information(strengths, counts / len(votes.pair)))
    by_vote = (votes.points - chance[votes.pair])[:, None] * _SIDES[votes.pair] / len(votes.pair)
    by_prompt = _sums(votes.prompt, by_vote, prompts if judged is None else len(judged))
    if judged is not None:
        scores = (judged - chance) @ _SIDES / judged.size
        at_votes = (judged[votes.prompt, votes.pair] - chance[votes.pair])[:, None] * _SIDES[votes.pair]
        at_votes = at_votes / len(votes.pair)
        centred = at_votes - at_votes.mean(axis=0)
        judge = scores - scores.mean(axis=0) - _sums(votes.prompt, centred, len(judged))
        weights = _judge_weights(by_prompt @ inverse, judge @ inverse)[:, None]
        moved = scores - _sums(votes.prompt, at_votes, len(judged))
        strengths = strengths + inverse @ (weights * moved).sum(axis=0)
        by_prompt = by_prompt + weights * judge
        by_vote = by_vote - weights[votes.prompt] * centred
    # Clusters are prompts, and voters beside them; the part of each grows as if it had been left out (CR3).
    prompt_parts = _left_out(by_prompt, votes.prompt, votes, chance, inverse)
    voter_sums = _sums(votes.voter, by_vote, int(votes.voter.max()) + 1)
    voter_parts = _left_out(voter_sums, votes.voter, votes, chance, inverse)
    ways = np.square(prompt_parts).sum(axis=0), np.square(voter_parts).sum(axis=0)
    variance = np.maximum(sum(ways) - np.square(by_vote @ inverse).sum(axis=0), np.maximum(*ways))
    return Rated(
        strengths - strengths.mean(), np.sqrt(variance), min(map(_freedom, (prompt_parts, voter_parts)))
    )


def _judge_weights(people: Floats, judge: Floats) -> Floats:
    """λ of each prompt: least variance on the prompts of the other folds, between 0 and 1."""
    folds = np.arange(len(judge)) % _FOLD_COUNT
    weights = np.zeros(len(judge))
    for fold in range(_FOLD_COUNT):
        others = folds != fold
        spread = float(np.square(judge[others]).sum())
        best = -float((people[others] * judge[others]).sum()) / spread if spread > 0.0 else 0.0
        weights[folds == fold] = min(max(best, 0.0), 1.0)
    return weights


def _sums(cluster: Ints, rows: Floats, clusters: int) -> Floats:
    return np.stack([np.bincount(cluster, column, minlength=clusters) for column in rows.T], axis=1)


def _left_out(sums: Floats, cluster: Ints, votes: Votes, chance: Floats, inverse: Floats) -> Floats:
    """What each cluster moves the ratings by."""
    held = np.zeros((len(sums), len(_PAIRS)))
    np.add.at(held, (cluster, votes.pair), (chance * (1.0 - chance))[votes.pair] / len(votes.pair))
    shares = np.einsum("cp,pi,pj->cij", held, _SIDES, _SIDES) @ inverse
    return np.linalg.solve(np.eye(_MODELS) - shares, sums[:, :, None])[:, :, 0] @ inverse


def _freedom(parts: Floats) -> float:
    """How many even clusters these are like, less one."""
    sizes = np.square(parts).sum(axis=1)
    return max(float(sizes.sum() ** 2 / np.square(sizes).sum()) - 1.0, 1.0)


class Gain(NamedTuple):
    """Errors and intervals of the combined board beside those of people alone."""

    #: Correlation of judge and people within a pair of models.
    correlation: float
    #: Root mean squared errors ÷ that of people alone with all votes: combined, combined with fewer votes, and people
    #: alone on all prompts that the judge saw.
    error: float
    error_fewer: float
    people_spread: float
    width: float
    covered: float
    people_covered: float


def measure_gain(world: CombinedWorld, worlds: int, seed: int) -> Gain:
    """Rate worlds of one kind with and without the judge."""
    rng = np.random.default_rng(seed)
    fewer = round(world.votes * (1.0 - SAVED_SHARE))
    squares, held, widths, correlation = np.zeros(4), np.zeros(2), np.zeros((worlds, 2)), 0.0
    for number in range(worlds):
        found = make_world(world, rng)
        some = found.votes.first(fewer)
        ways = [
            combine(found.votes, None, world.prompts),
            combine(found.votes, found.judged, world.prompts),
            combine(some, found.judged, world.prompts),
            combine(found.spread, None, len(found.judged)),
        ]
        squares += [float(np.square(rated.ratings - found.truth).mean()) / worlds for rated in ways]
        correlation += _correlation(found) / worlds
        for place, rated in enumerate(ways[:2]):
            half = float(student_t.ppf(0.975, rated.freedom)) * rated.errors
            held[place] += float((np.abs(rated.ratings - found.truth) <= half).mean()) / worlds
            widths[number, place] = float(half.mean())
    error, error_fewer, people_spread = np.sqrt(squares[1:] / squares[0])
    # Of the middle world: where one voter gave nearly all votes of a model, an interval has no end.
    width = float(np.median(widths[:, 1] / widths[:, 0]))
    return Gain(
        correlation, error, error_fewer, people_spread, width, covered=held[1], people_covered=held[0]
    )


def _correlation(world: CombinedVotes) -> float:
    """Of people's votes and the judge's on the same matches, both less the mean of their pair of models."""
    votes = world.votes
    counts = np.maximum(np.bincount(votes.pair, minlength=len(_PAIRS)), 1)
    said = np.stack([votes.points, world.judged[votes.prompt, votes.pair]])
    means = np.stack([np.bincount(votes.pair, row, minlength=len(_PAIRS)) / counts for row in said])
    table: Floats = np.asarray(np.corrcoef(said - means[:, votes.pair]))
    return float(table[0, 1])


def _rows(worlds: int) -> Iterator[str]:
    for row, (name, kind) in enumerate(WORLDS.items()):
        for prompts in (20, 100):
            for times in (1, 5):
                world = replace(kind, prompts=prompts, judged_prompts=times)
                gain = measure_gain(world, worlds, 1000 * row + 10 * prompts + times)
                yield (
                    f"| {name} | {gain.correlation:.2f} | {prompts} | {prompts * times} | {gain.error:.2f} "
                    f"| {gain.error_fewer:.2f} | {gain.people_spread:.2f} | {gain.width:.2f} "
                    f"| {100 * gain.covered:.1f} % | {100 * gain.people_covered:.1f} % |"
                )


def combined_page(worlds: int, command: str) -> str:
    """The table as Markdown."""
    return "\n".join(
        [
            "# One board of people and a judge, measured",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`.",
            "",
            (
                f"{worlds:,} worlds of each kind: {_MODELS} models, 1,000 votes. *ρ*: the correlation of judge and people "
                "within a pair of models. Errors are divided by that of people alone: of the combined board, of the "
                f"combined board with {1 - SAVED_SHARE:.0%} of the votes, and of people alone with as many votes on all "
                "prompts that were judged. *Width*: intervals of the combined board ÷ those of people alone. *Held*: how "
                "often 95 % intervals hold the truth."
            ),
            "",
            (
                "| world | ρ | people's prompts | judged | error | with 85 % of votes | people on all prompts | width "
                "| held, combined | held, people |"
            ),
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
            *_rows(worlds),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=300, help="worlds of each kind")
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args(arguments)
    write_page(
        combined_page(options.worlds, f"python -m lab.combined_study --worlds {options.worlds}"), options.out
    )


if __name__ == "__main__":
    main()
