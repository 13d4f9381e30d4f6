"""The settings of simulated worlds, and random worlds drawn from them.

The worlds in which the package's claims are tested are kind or hostile: models that are all equal or equal in
pairs, a few prompts or voters with most of the votes, tastes that differ between voters, a model that hardly
ever loses. Each is a setting here, and settings combine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from tiltyard.errors import BadOption
from tiltyard.simulation.worlds import POINTS_PER_LOGIT, Crowd, Drift, Rigging, World, average_win

Floats = npt.NDArray[np.float64]

#: Number of models with small gaps at the top of a world with ``close_top``, and the range of the gaps.
CLOSE_TOP_MODELS = 8
CLOSE_GAP_POINTS = (4.0, 25.0)
#: What the best model wins of its decisive votes in a world with ``near_separated``.
RUNAWAY_WIN_SHARE = 0.98

_RIVAL_COUNT = 3
_SHARES = frozenset({"ties", "both_bad", "lazy", "dead", "riggers"})
_EITHER_WAY = frozenset({"position_bias", "drift"})

#: What makes a world hostile, by name: the settings that it changes.
HOSTILE: dict[str, dict[str, float | bool]] = {
    "equal": {"strength_sd": 0.0, "close_top": False},
    "clone": {"clones": True, "close_top": False},
    "uneven": {"prompt_pareto": 1.1},
    "voters": {"voters": 20, "voter_sd": 0.5},
    "heavy-voters": {"voters": 200, "voter_sd": 0.5, "voter_pareto": 1.1},
    "near-separated": {"near_separated": True, "close_top": False},
}


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """The parameters of a random world. The defaults are those of the ranking policy's validation.

    Shares are between 0 and 1, times are counted in votes. Newcomers, retired and drifting models are
    drawn at random from the ``models``, without overlap.
    """

    models: int = 20
    prompts: int = 100
    #: Spread of strengths, in points.
    strength_sd: float = 200.0
    #: The top min(8, models / 2) models are 4 to 25 points apart, above the strength drawn for the last of them.
    close_top: bool = True
    #: Models are equal in pairs, where any claim of an order is false.
    clones: bool = False
    #: Spread of the effects of model × prompt, in logits.
    effect_sd: float = 0.5
    ties: float = 0.16
    both_bad: float = 0.07
    lazy: float = 0.05
    #: Advantage of side A, in logits.
    position_bias: float = 0.1
    #: Pareto's exponent of the battles per prompt, below 2 a few prompts have most of them; 0: all have the same.
    prompt_pareto: float = 0.0
    #: Number of voters who return, each with a taste of its own; 0: every vote is cast by somebody else.
    voters: int = 0
    #: Spread of the effects of model × voter, in logits.
    voter_sd: float = 0.5
    #: Pareto's exponent of the votes per voter; 0: all cast the same number.
    voter_pareto: float = 0.0
    #: The best model wins 49 of 50 decisive votes.
    near_separated: bool = False
    #: Share of the prompts on which everything is both_bad.
    dead: float = 0.0
    #: Share of the votes that are cast for one model, and its true rank by strength.
    riggers: float = 0.0
    rigged_rank: int = 2
    newcomers: int = 0
    newcomers_after: int = 0
    retired: int = 0
    retired_after: int = 0
    drifting: int = 0
    #: Change of the strength of drifting models, in points.
    drift: float = 0.0
    drift_after: int = 0
    #: Votes over which they change; 0: at once.
    drift_over: int = 0

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self)):
            value = getattr(self, name)
            if name in _SHARES and not 0.0 <= value <= 1.0:
                raise BadOption(f"{name} is {value}; expected a share between 0 and 1")
            if name not in _EITHER_WAY and value < 0:
                raise BadOption(f"{name} is {value}; expected 0 or more")
        if self.models < 2 or self.prompts < 1:
            raise BadOption(f"{self.models} models and {self.prompts} prompts; a matchup needs 2 and 1")
        if self.ties + self.both_bad >= 1.0:
            raise BadOption(f"ties {self.ties} and both_bad {self.both_bad} leave no decisive votes")
        if self.dead_prompts >= self.prompts:
            raise BadOption(f"dead is {self.dead}: none of {self.prompts} prompts would be usable")
        if not 1 <= self.rigged_rank <= self.models:
            raise BadOption(f"rigged_rank is {self.rigged_rank}; expected 1 to {self.models}")
        if self.newcomers + self.retired > self.models - max(2, self.drifting):
            raise BadOption(
                f"too many newcomers ({self.newcomers}), retired ({self.retired}) and drifting models "
                f"({self.drifting}) for {self.models}: these groups may not overlap, and 2 models must always be present"
            )

    @property
    def dead_prompts(self) -> int:
        return round(self.dead * self.prompts)


def hostile_world(names: str, settings: WorldSettings) -> WorldSettings:
    """The settings changed by one or more names of `HOSTILE`, joined by ``+``: ``equal+voters``."""
    changes: dict[str, float | bool] = {}
    for name in names.split("+"):
        if name not in HOSTILE:
            raise BadOption(
                f"there is no world {name!r}; expected {', '.join(HOSTILE)}, or several joined by +"
            )
        changes |= HOSTILE[name]
    return replace(settings, **changes)  # type: ignore[arg-type]


def draw_world(
    models: int,
    prompts: int,
    rng: np.random.Generator,
    *,
    strength_sd: float = 200.0,
    effect_sd: float = 0.5,
    clones: bool = False,
) -> World:
    """A simple random world: normal strengths (points), normal effects (logits), honest voters.

    ``clones`` makes models equal in pairs, where any claim of an order is false.
    """
    plain = WorldSettings(models, prompts, strength_sd, effect_sd=effect_sd, close_top=False, lazy=0.0)
    return draw_world_of(replace(plain, clones=clones), rng)


def draw_world_of(settings: WorldSettings, rng: np.random.Generator) -> World:
    """A random world."""
    m = settings.models
    strength = rng.normal(0.0, settings.strength_sd / POINTS_PER_LOGIT, m)
    if settings.close_top:
        strength = _with_close_top(strength, rng)
    if settings.near_separated:
        strength = _with_runaway(
            strength, math.hypot(settings.effect_sd, settings.voter_sd * (settings.voters > 0))
        )
    effect = rng.normal(0.0, settings.effect_sd, (m, settings.prompts))
    if settings.clones:
        strength = np.repeat(strength[::2], 2)[:m]
    dead = rng.choice(settings.prompts, settings.dead_prompts, replace=False) if settings.dead_prompts else ()
    chosen = _chosen(settings, rng)
    width = len(str(m - 1))
    return World(
        tuple(f"model-{k:0{width}}" for k in range(m)),
        strength,
        effect,
        settings.effect_sd,
        ties=settings.ties,
        both_bad=settings.both_bad,
        position_bias=settings.position_bias,
        lazy=settings.lazy,
        dead=frozenset(int(p) for p in dead),
        prompt_shares=_pareto_shares(settings.prompts, settings.prompt_pareto, rng),
        crowd=_crowd(settings, rng),
        rigging=_rigging(settings, strength),
        drift=_drift(settings, chosen["drifting"]),
        joins=dict.fromkeys(chosen["newcomers"], settings.newcomers_after),
        leaves=dict.fromkeys(chosen["retired"], settings.retired_after),
    )


def _with_close_top(strength: Floats, rng: np.random.Generator) -> Floats:
    """Reduce the gaps at the top: the last of the top models keeps its strength, the others are placed above it."""
    top = np.argsort(-strength)[: min(CLOSE_TOP_MODELS, len(strength) // 2)]
    above = np.cumsum(rng.uniform(*CLOSE_GAP_POINTS, len(top) - 1)) / POINTS_PER_LOGIT
    moved = strength.copy()
    moved[top[:-1]] = strength[top[-1]] + above[::-1]
    return moved


def _with_runaway(strength: Floats, effect_sd: float) -> Floats:
    """Raise the best model until it wins `RUNAWAY_WIN_SHARE` of its decisive votes against the others on average."""
    best = int(strength.argmax())
    moved = strength.copy()

    def too_strong(raised: float) -> float:
        moved[best] = raised
        return float(np.delete(average_win(moved, effect_sd)[best], best).mean()) - RUNAWAY_WIN_SHARE

    moved[best] = brentq(too_strong, float(strength.min()), float(strength.max()) + 20.0)
    return moved


def _pareto_shares(n: int, exponent: float, rng: np.random.Generator) -> Floats | None:
    if exponent == 0.0:
        return None
    sizes = rng.pareto(exponent, n) + 1.0
    return np.asarray(sizes / sizes.sum())


def _crowd(settings: WorldSettings, rng: np.random.Generator) -> Crowd | None:
    if settings.voters == 0:
        return None
    shares = _pareto_shares(settings.voters, settings.voter_pareto, rng)
    effect = rng.normal(0.0, settings.voter_sd, (settings.models, settings.voters))
    even = np.full(settings.voters, 1.0 / settings.voters)
    return Crowd(effect, settings.voter_sd, even if shares is None else shares)


def _chosen(settings: WorldSettings, rng: np.random.Generator) -> dict[str, list[int]]:
    """The models that join late, leave early or drift."""
    counts = {name: getattr(settings, name) for name in ("newcomers", "retired", "drifting")}
    order = rng.permutation(settings.models).tolist() if any(counts.values()) else []
    return {name: [order.pop() for _ in range(count)] for name, count in counts.items()}


def _rigging(settings: WorldSettings, strength: Floats) -> Rigging | None:
    if settings.riggers == 0.0:
        return None
    target = int(np.argsort(-strength, kind="stable")[settings.rigged_rank - 1])
    nearest = np.argsort(np.abs(strength - strength[target]), kind="stable").tolist()
    rivals = [model for model in nearest if model != target][:_RIVAL_COUNT]
    return Rigging(settings.riggers, target, frozenset(rivals))


def _drift(settings: WorldSettings, models: list[int]) -> Drift | None:
    if not models:
        return None
    return Drift(
        frozenset(models), settings.drift / POINTS_PER_LOGIT, settings.drift_after, settings.drift_over
    )
