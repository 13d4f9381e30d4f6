"""Logs whose pairs follow running ratings, and uneven ones whose pairs do not."""

import numpy as np
import pytest

from support.sizes import sized
from support.worlds import table
from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.log_findings import pairing_findings
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.runs.battle_rating import RateSettings, rate_table

M = 8


def played(rng, pairs, strength, n, prompts=60, voters=60):
    """Battles whose pair ``pairs(battle number, running Elo)`` chooses, with effects of prompts and of voters."""
    m = len(strength)
    effect, taste = rng.normal(0.0, 0.5, (m, prompts)), rng.normal(0.0, 0.5, (m, voters))
    rating, rows = np.zeros(m), []
    for k in range(n):
        i, j = pairs(k, rating)
        prompt, voter = rng.integers(prompts), rng.integers(voters)
        gap = (
            strength[i]
            - strength[j]
            + effect[i, prompt]
            - effect[j, prompt]
            + taste[i, voter]
            - taste[j, voter]
        )
        tie = rng.random() < 0.15
        score = 0.5 if tie else float(rng.random() < 1.0 / (1.0 + np.exp(-gap)))
        change = 0.14 * (score - 1.0 / (1.0 + np.exp(rating[j] - rating[i])))
        rating[i] += change
        rating[j] -= change
        rows.append((i, j, {0.0: Kind.WIN_B, 0.5: Kind.TIE, 1.0: Kind.WIN_A}[score], prompt + 1, voter + 1))
    a, b, kind, prompt, voter = (np.array(column) for column in zip(*rows, strict=True))
    return CodedBattles(
        a.astype(np.uint16),
        b.astype(np.uint16),
        kind.astype(np.uint8),
        prompt=prompt.astype(np.uint64),
        voter=voter.astype(np.uint64),
    )


def world(kind, seed, n=1500, m=M):
    rng = np.random.default_rng([9, seed])
    strength = np.zeros(m) if kind in ADAPTIVE else rng.permutation(np.linspace(0.8, -0.8, m))
    share = rng.pareto(1.1, m) + 1.0
    first, second = np.triu_indices(m, 1)
    chosen = rng.permutation(len(first))

    def pairs(k, rating):
        if kind == "neighbours":
            order = np.argsort(-rating)
            at = min(int(rng.exponential(1.5)), m - 2)
            return rng.permutation(order[at : at + 2])
        if kind == "closest":
            i = rng.integers(m)
            weight = np.exp(-np.abs(rating - rating[i]) / 0.35)
            weight[i] = 0.0
            return i, rng.choice(m, p=weight / weight.sum())
        if kind == "hub":
            return rng.permutation([0, rng.integers(1, m)])
        if kind == "uneven":
            return rng.choice(m, 2, replace=False, p=share / share.sum())
        if kind == "near by strength":
            i = rng.integers(m)
            weight = np.exp(-np.abs(strength - strength[i]) / 0.3)
            weight[i] = 0.0
            return i, rng.choice(m, p=weight / weight.sum())
        if kind == "round robin":
            return first[k % len(first)], second[k % len(first)]
        if kind == "pair by pair":
            at = chosen[k * len(first) // n]
            return first[at], second[at]
        if kind == "model by model":
            i = k * m // n
            return i, (i + rng.integers(1, m)) % m
        if kind == "newcomers":
            known = 3 + (m - 3) * k // n
            return known, rng.integers(known)
        return rng.choice(m, 2, replace=False)

    return played(rng, pairs, strength, n)


ADAPTIVE = ("neighbours", "closest")
OTHERS = (
    "even",
    "hub",
    "uneven",
    "near by strength",
    "round robin",
    "pair by pair",
    "model by model",
    "newcomers",
)


def found(kind, seed, **sizes):
    return bool(pairing_findings(table(world(kind, seed, **sizes)), Scoring()))


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_pairs_that_follow_running_ratings_are_found(kind):
    assert all(found(kind, seed) for seed in range(sized(3, 20)))


@pytest.mark.parametrize("kind", OTHERS)
def test_uneven_pairs_are_not(kind):
    assert sum(found(kind, seed) for seed in range(sized(3, 20))) <= sized(0, 1)


def test_it_needs_the_order_of_the_log():
    codes = world("neighbours", 1)
    shuffled = np.random.default_rng(0).permutation(len(codes))
    fields = (codes.a, codes.b, codes.kind, codes.prompt, codes.voter)
    a, b, kind, prompt, voter = (column[shuffled] for column in fields)
    assert not pairing_findings(table(CodedBattles(a, b, kind, prompt=prompt, voter=voter)), Scoring())


def test_a_short_log_says_nothing():
    assert not found("neighbours", 1, n=60)
    assert not pairing_findings(table(world("neighbours", 1, n=1, m=2)), Scoring())


def test_rate_tells_it():
    rated = rate_table(table(world("neighbours", 1)), RateSettings(BradleyTerry()))
    assert "adaptive-pairs" in {finding.name for finding in rated.board.findings}
    rated = rate_table(table(world("even", 1)), RateSettings(BradleyTerry()))
    assert "adaptive-pairs" not in {finding.name for finding in rated.board.findings}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*ADAPTIVE, *OTHERS])
def test_how_often_it_is_found_and_what_intervals_hold(kind):
    told, held, false, worlds = 0, [], 0, 300
    for seed in range(worlds):
        battles = table(world(kind, seed))
        told += bool(pairing_findings(battles, Scoring()))
        if kind in ADAPTIVE:
            result = BradleyTerry()(battles)
            held.append(((result.interval.low <= 1500.0) & (result.interval.high >= 1500.0)).mean())
            false += rank_models(result).above.any()
    print(f"{kind}: told in {told} of {worlds}", f"held {np.mean(held):.1%}, false {false}" if held else "")
    assert told >= 0.9 * worlds if kind in ADAPTIVE else told <= 0.05 * worlds
