"""Are ratings by category better if they are moved towards those of all categories?

Half of the prompts of each category are hidden. Three ratings of each category come from the other half: *raw*, of that
category alone; *pooled*, of all categories; *shrunk*, raw ones moved towards pooled ones as far as noise explains how they
differ (empirical Bayes). They are compared by their log-loss on the hidden half, by how often they name the right first
model, and by whether the shrunk intervals hold the truth. They earn their place on a board if they are never worse
than the better of the two by more than 0.005, better than both in two worlds, and their intervals hold in 93 % of cells.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.category_shrinkage import shrink_categories

UNIT = 400.0 / np.log(10.0)
#: Effects of model × prompt, in logits, and what they flatten differences by (Zeger, Liang and Albert 1988).
PROMPT_SD = 0.4
FLATTENED = np.sqrt(1.0 + (16.0 * np.sqrt(3.0) / (15.0 * np.pi)) ** 2 * 2.0 * PROMPT_SD**2)


@dataclass(frozen=True)
class Shape:
    """Battles and prompts of each category, how uneven models are in numbers, and how models differ by category."""

    battles: tuple[int, ...]
    prompts: tuple[int, ...]
    models: int
    pareto: float | None
    category_sd: float


def four(sd):
    return Shape((240,) * 6, (20,) * 6, 10, None, sd)


#: The first two have the shape of public logs: a crowd's, each prompt asked once, in categories of very different sizes
#: (LMArena), and experts' on eighty prompts in eight categories (MT-bench).
SHAPES = {
    "crowd": Shape(
        (3000, 1500, 900, 600, 400, 250, 150, 100), (3000, 1500, 900, 600, 400, 250, 150, 100), 20, 2.0, 0.25
    ),
    "experts": Shape((420,) * 8, (10,) * 8, 6, None, 0.4),
    "no effects": four(0.0),
    "small effects": four(0.15),
    "effects": four(0.4),
    "large effects": four(1.0),
}


def draw(shape, seed):
    """The true strengths by category, and of each category models, scores and prompts."""
    rng = np.random.default_rng([6, seed])
    m = shape.models
    strength = rng.permutation(np.linspace(0.6, -0.6, m)) + rng.normal(
        0.0, shape.category_sd, (len(shape.battles), m)
    )
    share = np.ones(m) if shape.pareto is None else rng.pareto(shape.pareto, m) + 1.0
    rows = []
    for own, battles, prompts in zip(strength, shape.battles, shape.prompts, strict=True):
        a = rng.choice(m, battles, p=share / share.sum())
        b = (a + rng.integers(1, m, battles)) % m
        prompt = rng.integers(0, prompts, battles) if prompts < battles else np.arange(battles)
        effect = rng.normal(0.0, PROMPT_SD, (m, prompts))
        gap = own[a] - own[b] + effect[a, prompt] - effect[b, prompt]
        rows.append((a, b, (rng.random(battles) < 1.0 / (1.0 + np.exp(-gap))).astype(float), prompt))
    truth = strength / FLATTENED
    return truth - truth.mean(axis=1, keepdims=True), rows


def rate(parts, m):
    """Ratings by a weak prior, which keeps those of few battles finite."""
    a, b, score, prompt = (np.concatenate(column) for column in zip(*parts, strict=True))
    kind = np.where(score == 1.0, Kind.WIN_A, Kind.WIN_B).astype(np.uint8)
    codes = CodedBattles(
        a.astype(np.uint16), b.astype(np.uint16), kind, prompt=(prompt + 1).astype(np.uint64)
    )
    return BradleyTerry(prior_sd=600.0)(Table.from_codes(tuple(f"m{k:02d}" for k in range(m)), codes))


def logits(points):
    """Ratings in logits; 0 for a model without one."""
    return np.nan_to_num((points - np.nanmean(points, axis=-1, keepdims=True)) / UNIT)


def log_loss(rating, part):
    a, b, score, _ = part
    p = 1.0 / (1.0 + np.exp(rating[b] - rating[a]))
    return -np.log(np.where(score == 1.0, p, 1.0 - p)).sum()


def study(shape, seed):
    """Of one world: log-loss a battle and share of right winners of raw, pooled, shrunk; what shrunk intervals hold, and widths."""
    truth, rows = draw(shape, seed)
    m = shape.models
    halves = [prompt < prompts / 2 for (*_, prompt), prompts in zip(rows, shape.prompts, strict=True)]
    seen = [tuple(column[half] for column in row) for row, half in zip(rows, halves, strict=True)]
    hidden = [tuple(column[~half] for column in row) for row, half in zip(rows, halves, strict=True)]
    offsets = np.cumsum((0, *shape.prompts))
    named = [
        (a, b, score, prompt + offset) for (a, b, score, prompt), offset in zip(seen, offsets, strict=False)
    ]
    pooled = logits(rate(named, m).rating)
    own = [rate([part], m) for part in seen]
    moved = shrink_categories(own, 0.95)
    raw = logits(np.array([one.rating for one in own]))
    shrunk = np.array([one.rating for one in moved])
    low, high = (np.array([getattr(one, end) for one in moved]) for end in ("low", "high"))
    true = truth * UNIT + np.nanmean(shrunk - truth * UNIT, axis=1, keepdims=True)
    ratings = (raw, np.broadcast_to(pooled, raw.shape), np.where(np.isnan(shrunk), pooled, logits(shrunk)))
    loss = [sum(map(log_loss, rating, hidden)) / sum(len(part[0]) for part in hidden) for rating in ratings]
    right = [(rating.argmax(axis=1) == truth.argmax(axis=1)).mean() for rating in ratings]
    given, held = np.isfinite(shrunk), (low <= true) & (true <= high)
    effect = np.abs(truth - truth.mean(axis=0))
    special = given & (effect >= np.quantile(effect, 0.9))
    return [*loss, *right, held[given].mean(), held[special].mean()]


@pytest.mark.slow
def test_whether_shrinking_by_category_earns_its_place():
    worlds, better, worst, covered = 60, 0, -1.0, []
    for name, shape in SHAPES.items():
        results = np.array([study(shape, seed) for seed in range(worlds)])
        raw, pooled, shrunk, *right, held, special = results.mean(axis=0)
        better += shrunk < min(raw, pooled)
        worst = max(worst, shrunk - min(raw, pooled))
        covered.append(held)
        print(
            f"{name}: log-loss {raw:.4f} / {pooled:.4f} / {shrunk:.4f}, winners "
            + " / ".join(f"{share:.0%}" for share in right)
            + f", held {held:.1%}, of the tenth with the largest effects {special:.1%}"
        )
    assert worst <= 0.005
    assert better >= 2
    assert min(covered) >= 0.93
