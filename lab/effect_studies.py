"""Studies of live arenas whose voters reward length: do the intervals of both effects hold the truth?

One study draws a world with free prompts, gives every answer a length and every call a waiting time, lets voters reward
them, and estimates both effects from the votes as the board of an arena does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from lab.live_worlds import LiveWorld, LiveWorldSettings, draw_live_world
from tiltyard.arena.boards.battle_effects import EFFECT_NAMES, TRAIT_COLUMNS, EffectsDocument, battle_effects
from tiltyard.arena.boards.filtered_boards import BoardOrigin
from tiltyard.arena.log.votes import Ballots
from tiltyard.simulation.studies import Study
from tiltyard.simulation.worlds import POINTS_PER_LOGIT

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ABOUT: BoardOrigin = {"arena": "lab", "source": "human", "snapshot": "", "position": 0, "generation": 0}
#: Battles by which the true effects are computed; each has its expected result, so they have hardly any noise.
_TRUTH_BATTLES = 10_000
_QUADRATURE_POINTS = 12
_NEWTON_STEPS = 6
_MIDDLE_CHARACTERS = 800.0


@dataclass(frozen=True, slots=True)
class EffectSettings:
    """A kind of world, the number of votes, and what a doubling is worth in points: of length, and of waiting time.

    Lengths and times are in doublings. Models differ in both by a standard deviation of ``between``, the answers of one
    model by ``within``; ``skill`` is the correlation of a model's mean length with its strength.
    """

    world: LiveWorldSettings = field(default_factory=LiveWorldSettings)
    votes: int = 600
    length: float = 31.0
    waiting: float = 0.0
    between: float = 0.7
    within: float = 0.7
    skill: float = 0.5


@dataclass(frozen=True, slots=True)
class EffectResult:
    """Of each effect: the truth, the estimate and its interval; ``None`` if it was not estimated."""

    truth: tuple[float, float]
    points: tuple[float | None, float | None]
    low: tuple[float | None, float | None]
    high: tuple[float | None, float | None]

    def covered(self, which: int) -> bool | None:
        """Whether an interval holds the truth."""
        low, high = self.low[which], self.high[which]
        return None if low is None or high is None else low <= self.truth[which] <= high

    def claimed(self, which: int) -> bool | None:
        """Whether an interval says that there is an effect."""
        low, high = self.low[which], self.high[which]
        return None if low is None or high is None else not low <= 0.0 <= high


@dataclass(frozen=True, slots=True, eq=False)
class EffectTraits:
    """How long a world's models write, and how long they take, on average: models × (length, waiting)."""

    settings: EffectSettings
    means: Floats

    @classmethod
    def of(cls, settings: EffectSettings, world: LiveWorld, rng: np.random.Generator) -> EffectTraits:
        strength = world.strength / max(float(world.strength.std()), 1e-9)
        own = rng.normal(size=(len(strength), 2))
        own[:, 0] = settings.skill * strength + math.sqrt(1.0 - settings.skill**2) * own[:, 0]
        return cls(settings, settings.between * own)

    def draw(self, models: Ints, rng: np.random.Generator) -> Floats:
        """Length and waiting time, in doublings, of an answer of each of these models."""
        return np.asarray(self.means[models] + rng.normal(0.0, self.settings.within, (len(models), 2)))

    @property
    def worth(self) -> Floats:
        """Logits for a doubling of each."""
        return np.array([self.settings.length, self.settings.waiting]) / POINTS_PER_LOGIT


def study_effects(settings: EffectSettings, seed: int) -> EffectResult:
    """Draw one world, let it vote, and estimate both effects."""
    world = draw_live_world(settings.world, np.random.default_rng([seed, 0]))
    traits = EffectTraits.of(settings, world, np.random.default_rng([seed, 1]))
    ballots, measured = _voted(world, traits, np.random.default_rng([seed, 2]))
    said = battle_effects(ballots, world.models, measured, _ABOUT)
    length, waiting = (_estimated(said, name) for name in EFFECT_NAMES)
    truth = _true_effects(world, traits, np.random.default_rng([seed, 3]))
    return EffectResult(truth, (length[0], waiting[0]), (length[1], waiting[1]), (length[2], waiting[2]))


def _estimated(said: EffectsDocument, trait: str) -> tuple[float | None, float | None, float | None]:
    """Points and interval of an effect; ``None`` if it was not estimated."""
    for effect in said["effects"]:
        if effect["trait"] == trait:
            return effect["points"], effect["low"], effect["high"]
    return None, None, None


def _voted(world: LiveWorld, traits: EffectTraits, rng: np.random.Generator) -> tuple[Ballots, Floats]:
    """Votes on uniform pairs, and what is measured of each battle."""
    n, m = traits.settings.votes, len(world.models)
    a = rng.integers(0, m, n)
    b = (a + rng.integers(1, m, n)) % m
    left, right = traits.draw(a, rng), traits.draw(b, rng)
    columns: list[tuple[int, int, int, int]] = []
    for k in range(n):
        prompt = world.type(rng)
        effect = prompt.effect.copy()
        effect[a[k]] += left[k] @ traits.worth
        effect[b[k]] += right[k] @ traits.worth
        kind = world.vote(int(a[k]), int(b[k]), replace(prompt, effect=effect), rng)
        columns.append((prompt.voter, prompt.category, int(kind), prompt.number))
    session, category, kinds, number = np.array(columns, dtype=np.int64).T
    position = np.arange(1, n + 1)
    measured = np.empty((n, TRAIT_COLUMNS))
    measured[:, 0] = position
    measured[:, 1:3] = _MIDDLE_CHARACTERS * np.exp2(np.stack([left[:, 0], right[:, 0]], axis=1))
    measured[:, 3:5] = np.exp2(np.stack([left[:, 1], right[:, 1]], axis=1))
    return Ballots(position, session, a, b, category, kinds, number, np.zeros(n, dtype=np.int64)), measured


def _true_effects(world: LiveWorld, traits: EffectTraits, rng: np.random.Generator) -> tuple[float, float]:
    """The effects of the fit to infinitely many votes of voters and prompts like these, in points for a doubling.

    Tastes and random votes make them smaller than what each voter rewards.
    """
    m, n, settings = len(world.models), _TRUTH_BATTLES, world.settings
    a = rng.integers(0, m, n)
    b = (a + rng.integers(1, m, n)) % m
    difference = traits.draw(a, rng) - traits.draw(b, rng)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_QUADRATURE_POINTS)
    won = np.zeros(n)
    for category, share in enumerate(world.category_shares.tolist()):
        strength = world.strength + world.category_effect[:, category]
        d = strength[a] - strength[b] + settings.position_bias + difference @ traits.worth
        for part, voter_sd in (
            (settings.popular_share, settings.voter_sd),
            (1.0 - settings.popular_share, settings.own_voter_sd),
        ):
            spread = math.sqrt(2.0) * math.hypot(settings.effect_sd, voter_sd)
            for node, weight in zip(nodes, weights / weights.sum(), strict=True):
                won += share * part * weight * 0.5 * (1.0 + np.tanh(0.5 * (d + spread * node)))
    ties = settings.ties / (1.0 - settings.both_bad)
    score = ties / 2.0 + (1.0 - ties) * (settings.lazy / 2.0 + (1.0 - settings.lazy) * won)
    design = np.zeros((n, m + 2))
    design[np.arange(n), a], design[np.arange(n), b] = 1.0, -1.0
    design[:, m:] = difference
    x = np.zeros(m + 2)
    for _ in range(_NEWTON_STEPS):
        expected = 0.5 * (1.0 + np.tanh(0.5 * (design @ x)))
        information = design.T @ (design * (expected * (1.0 - expected))[:, None])
        x += np.linalg.lstsq(information, design.T @ (score - expected), rcond=1e-10)[0]
    length, waiting = (x[m:] * POINTS_PER_LOGIT).tolist()
    return length, waiting


EFFECTS: Study[EffectSettings, EffectResult] = Study(
    "live-effects",
    1,
    study_effects,
    EffectResult,
    depends=(
        "tiltyard.core",
        "tiltyard.arena.boards.battle_effects",
        "tiltyard.arena.boards.battle_effects",
        "lab.effect_studies",
        "lab.live_worlds",
        "tiltyard.simulation.worlds",
    ),
)
