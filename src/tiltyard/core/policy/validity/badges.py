"""Badges: how settled one model's place is, and what is missing for the next badge.

A model is *provisional* until it is *established* (enough decisive votes, coverage and a small
enough RD), and *stable* once its RD and coverage are better still and it has met both neighbours
in rank often enough. What is missing is counted in votes of this model.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np

from tiltyard.core.policy.state.prompt_cells import LOSS
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.pair_floors import floor_of, neighbours_of, votes_to_floor
from tiltyard.core.policy.validity.prompt_coverage import votes_to_coverage
from tiltyard.core.policy.validity.rules import FREE_PROMPTS_CASE, Rule, check_rule
from tiltyard.core.policy.validity.vote_forecast import (
    decisive_share,
    pair_decisive_share,
    votes_to_gain,
    votes_to_rd,
)


class Badge(enum.StrEnum):
    """From least to most settled."""

    PROVISIONAL = "provisional"
    ESTABLISHED = "established"
    STABLE = "stable"


@dataclass(frozen=True, slots=True)
class BadgeCard:
    """A badge with the rules behind it."""

    model: int
    badge: Badge
    established: tuple[Rule, ...]
    stable: tuple[Rule, ...]

    @property
    def waiting(self) -> tuple[Rule, ...]:
        """Rules that hold up the next badge; none for a stable model."""
        rules = self.established if self.badge is Badge.PROVISIONAL else self.stable
        return tuple(rule for rule in rules if not rule.holds)


def badge_of(standing: Standing, model: int) -> BadgeCard:
    """The model's badge now."""
    established, stable = established_rules(standing, model), stable_rules(standing, model)
    return BadgeCard(model, badge_from_rules(established, stable), established, stable)


def badge_from_rules(established: tuple[Rule, ...], stable: tuple[Rule, ...]) -> Badge:
    """The badge that these rules give: the later ones count only when the earlier ones hold."""
    if not all(rule.holds for rule in established):
        return Badge.PROVISIONAL
    return Badge.STABLE if all(rule.holds for rule in stable) else Badge.ESTABLISHED


def established_rules(standing: Standing, model: int) -> tuple[Rule, ...]:
    """What makes a provisional model established."""
    policy = standing.policy
    return (
        _decisive_rule(standing, model),
        _coverage_rule(standing, model, "established-coverage", policy.established_coverage),
        _rd_rule(standing, model, "established-rd", policy.established_rd),
    )


def stable_rules(standing: Standing, model: int) -> tuple[Rule, ...]:
    """What makes an established model stable."""
    policy = standing.policy
    return (
        _coverage_rule(standing, model, "stable-coverage", policy.stable_coverage),
        _rd_rule(standing, model, "stable-rd", policy.stable_rd),
        _neighbours_rule(standing, model),
    )


def _decisive_rule(standing: Standing, model: int) -> Rule:
    """Too few votes, and a rating is an accident. Missing: decisive votes over the model's decisive share."""
    bar = standing.policy.established_votes
    decisive, votes = int(standing.record[model, : LOSS + 1].sum()), int(standing.record[model].sum())
    share = pair_decisive_share(decisive, votes, decisive_share(standing))
    return check_rule(
        "decisive-votes",
        {"bar": bar},
        decisive,
        bar,
        missing=votes_to_gain(max(bar - decisive, 0), share),
        detail={"decisive": decisive, "votes": votes},
    )


def _coverage_rule(standing: Standing, model: int, name: str, bar: float) -> Rule:
    """A model seen on some prompts only may owe its place to them."""
    filled, eligible = int(standing.cells.n_filled[model]), int(standing.cells.n_eligible[model])
    exhausted = int(standing.cells.n_exhausted[model])
    case = FREE_PROMPTS_CASE if standing.policy.free_prompts else {}
    return check_rule(
        name,
        {"bar": bar, **case},
        filled / eligible if eligible else None,
        bar,
        missing=votes_to_coverage(standing, model, bar),
        detail={"filled": filled, "eligible": eligible, "exhausted": exhausted, **case},
    )


def _rd_rule(standing: Standing, model: int, name: str, bar: float) -> Rule:
    """RD is the policy's bookkeeping of uncertainty; a large one says that the rating is still a guess."""
    rd = float(standing.strengths.rd[model])
    missing = float(votes_to_rd(standing, np.array([model]), bar)[0])
    return check_rule(name, {"bar": bar}, rd, bar, at_most=True, missing=missing, detail={"rd": rd})


def _neighbours_rule(standing: Standing, model: int) -> Rule:
    """A place is a claim about the neighbours: both must have been met often enough.

    A model at an end has one neighbour, and one that stands alone or is retired has none and
    cannot be stable. Missing: direct votes with each neighbour that is short.
    """
    around = [other for other in neighbours_of(standing, model) if other is not None]
    floors = [floor_of(standing, model, other) for other in around]
    overall = decisive_share(standing)
    short = tuple(
        {"model": standing.models[floor.below], "votes": floor.votes} for floor in floors if not floor.met
    )
    return check_rule(
        "neighbour-floors",
        {},
        sum(floor.met for floor in floors) if floors else None,
        max(len(floors), 1),
        missing=sum(votes_to_floor(floor, overall) for floor in floors) if floors else math.inf,
        detail={"neighbours": short} if short else None,
    )
