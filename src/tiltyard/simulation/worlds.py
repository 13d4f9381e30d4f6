"""Simulated worlds: models of known strength on prompts with known effects, and the settings they are drawn from.

The worlds in which the package's claims are tested are kind or hostile: models that are all equal or equal in
pairs, a few prompts or voters with most of the votes, tastes that differ between voters, a model that hardly
ever loses. Each is a setting here, and settings combine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit

from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.ratings import newton
from tiltyard.core.ratings.pairs import PairScores
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Floats

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

Ints = npt.NDArray[np.integer[Any]]
Kinds = npt.NDArray[np.uint8]
#: Rating points per logit.
POINTS_PER_LOGIT = 400.0 / math.log(10.0)
_QUADRATURE_NODE_COUNT = 41
_WIN_A, _WIN_B, _TIE, _BOTH_BAD = Kind.WIN_A, Kind.WIN_B, Kind.TIE, Kind.BOTH_BAD


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
    m = settings.models
    strength = rng.normal(0.0, settings.strength_sd / POINTS_PER_LOGIT, m)
    if settings.close_top:
        # Reduce the gaps at the top: the last of the top models keeps its strength, the others are placed above it.
        top = np.argsort(-strength)[: min(CLOSE_TOP_MODELS, len(strength) // 2)]
        above = np.cumsum(rng.uniform(*CLOSE_GAP_POINTS, len(top) - 1)) / POINTS_PER_LOGIT
        moved = strength.copy()
        moved[top[:-1]] = strength[top[-1]] + above[::-1]
        strength = moved
    if settings.near_separated:
        strength = _with_runaway(
            strength, math.hypot(settings.effect_sd, settings.voter_sd * (settings.voters > 0))
        )
    effect = rng.normal(0.0, settings.effect_sd, (m, settings.prompts))
    if settings.clones:
        strength = np.repeat(strength[::2], 2)[:m]
    dead = rng.choice(settings.prompts, settings.dead_prompts, replace=False) if settings.dead_prompts else ()
    # The models that join late, leave early or drift.
    counts = {name: getattr(settings, name) for name in ("newcomers", "retired", "drifting")}
    order = rng.permutation(settings.models).tolist() if any(counts.values()) else []
    chosen = {name: [order.pop() for _ in range(count)] for name, count in counts.items()}
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


@dataclass(frozen=True, slots=True)
class Rigging:
    """A share of the votes is cast to push one model up.

    A rigged vote is for the target; if it is absent, against a rival of the target; if neither or both
    models are rivals, random. It is never a tie. Rivals are the three models closest to the target in
    strength.
    """

    share: float
    target: int
    rivals: frozenset[int]

    def vote(self, a: int, b: int, rng: np.random.Generator) -> Kind:
        if self.target in (a, b):
            return _WIN_A if a == self.target else _WIN_B
        if (a in self.rivals) != (b in self.rivals):
            return _WIN_B if a in self.rivals else _WIN_A
        return _WIN_A if rng.random() < 0.5 else _WIN_B

    def kinds(self, a: Ints, b: Ints, rng: np.random.Generator) -> Kinds:
        """Vectorised `vote`."""
        rivals = list(self.rivals)
        push = 4.0 * (a == self.target) - 4.0 * (b == self.target) + np.isin(b, rivals) - np.isin(a, rivals)
        coin = rng.random(len(a)) < 0.5
        return np.where(np.where(push == 0, coin, push > 0), _WIN_A, _WIN_B).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Drift:
    """Some models move by ``gain`` logits, evenly over the votes from ``after`` to ``after + over``.

    With ``over`` 0 they move at once.
    """

    models: frozenset[int]
    gain: float
    after: int
    over: int

    def of(self, model: int, at: int) -> float:
        """The change of a model's strength after ``at`` votes."""
        if at < self.after or model not in self.models:
            return 0.0
        return self.gain * (min((at - self.after) / self.over, 1.0) if self.over else 1.0)

    def of_all(self, models: Ints, at: Ints) -> Floats:
        """Vectorised `of`, with a separate time for each model."""
        begun = np.clip((at - self.after) / self.over, 0.0, 1.0) if self.over else at >= self.after
        return np.asarray(self.gain * (begun * np.isin(models, list(self.models))), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Voters who return: how much each likes each model (models by voters, in logits), and the share of votes each casts."""

    effect: Floats
    effect_sd: float
    shares: Floats

    def draw(self, n: int, rng: np.random.Generator) -> Ints:
        """The voters of ``n`` votes."""
        return np.asarray(rng.choice(len(self.shares), n, p=self.shares))


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Strengths in logits, and each model's effect on each prompt of this world.

    A battle on prompt p is won by i over j with log-odds θ_i − θ_j + u_ip − u_jp, plus an
    advantage of side A; the share ``lazy`` of voters vote at random instead. With a ``crowd``, the tastes
    of the voter are added. Ties and both_bad occur at fixed rates. On a dead prompt every vote is
    both_bad. Time is counted in votes: ``at`` is the number of votes cast before.
    """

    models: tuple[str, ...]
    strength: Floats
    effect: Floats
    effect_sd: float
    ties: float = 0.16
    both_bad: float = 0.07
    position_bias: float = 0.1
    lazy: float = 0.0
    dead: frozenset[int] = frozenset()
    #: The share of battles on each prompt; ``None``: the same for all.
    prompt_shares: Floats | None = None
    #: ``None``: every vote is cast by somebody else, whose taste is noise.
    crowd: Crowd | None = None
    rigging: Rigging | None = None
    drift: Drift | None = None
    #: Votes after which a model joins or leaves; other models are always present.
    joins: Mapping[int, int] = field(default_factory=dict)
    leaves: Mapping[int, int] = field(default_factory=dict)
    _strengths: list[float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_strengths", self.strength.tolist())

    def vote(
        self, a: int, b: int, prompt: int, rng: np.random.Generator, at: int = 0, voter: int | None = None
    ) -> Kind:
        """The outcome of one matchup, with ``a`` on side A; ``voter`` is one of the crowd."""
        if prompt in self.dead:
            return _BOTH_BAD
        if self.rigging is not None and rng.random() < self.rigging.share:
            return self.rigging.vote(a, b, rng)
        other = rng.random()
        if other < self.ties:
            return _TIE
        if other < self.ties + self.both_bad:
            return _BOTH_BAD
        d = self._strengths[a] - self._strengths[b] + self.position_bias
        d += self.effect.item(a, prompt) - self.effect.item(b, prompt)
        if self.crowd is not None and voter is not None:
            d += self.crowd.effect.item(a, voter) - self.crowd.effect.item(b, voter)
        if self.drift is not None:
            d += self.drift.of(a, at) - self.drift.of(b, at)
        won = 0.5 + (0.5 - 0.5 * self.lazy) * math.tanh(0.5 * d)
        return _WIN_A if rng.random() < won else _WIN_B

    def kinds(
        self,
        a: Ints,
        b: Ints,
        prompt: Ints,
        rng: np.random.Generator,
        at: int = 0,
        voter: Ints | None = None,
    ) -> Kinds:
        """Vectorised `vote` for consecutive matchups, starting at time ``at``."""
        n = len(a)
        d = self.strength[a] - self.strength[b] + self.effect[a, prompt] - self.effect[b, prompt]
        d = d + self.position_bias
        if self.crowd is not None and voter is not None:
            d = d + self.crowd.effect[a, voter] - self.crowd.effect[b, voter]
        if self.drift is not None:
            moments = at + np.arange(n)
            d = d + self.drift.of_all(a, moments) - self.drift.of_all(b, moments)
        kind = np.where(rng.random(n) < self._with_lazy(expit(d)), _WIN_A, _WIN_B).astype(np.uint8)
        other = rng.random(n)
        kind[other < self.ties + self.both_bad] = _BOTH_BAD
        kind[other < self.ties] = _TIE
        if self.rigging is not None:
            rigged = rng.random(n) < self.rigging.share
            kind[rigged] = self.rigging.kinds(a[rigged], b[rigged], rng)
        if self.dead:
            kind[np.isin(prompt, list(self.dead))] = _BOTH_BAD
        return kind

    def table(self, n: int, rng: np.random.Generator) -> Table:
        """``n`` battles of uniform pairs."""
        return Table.from_codes(self.models, self.codes(n, rng))

    def codes(self, n: int, rng: np.random.Generator, at: int = 0) -> CodedBattles:
        """``n`` battles from time ``at`` on: uniform pairs of the present models; prompts and voters by their shares."""
        keys = hash_texts([f"prompt-{k}" for k in range(self.effect.shape[1])])
        ends = [moment for moment in self.changes() if at < moment < at + n]
        runs = []
        for start, end in zip([at, *ends], [*ends, at + n], strict=True):
            present, size = self.present(start), end - start
            first = rng.integers(0, len(present), size)
            second = (first + rng.integers(1, len(present), size)) % len(present)
            a, b, p = present[first], present[second], self.draw_prompts(size, rng)
            v = None if self.crowd is None else self.crowd.draw(size, rng)
            runs.append(
                (a, b, self.kinds(a, b, p, rng, start, v), p, np.zeros(size, int) if v is None else v)
            )
        a, b, kind, p, v = (np.concatenate(column) for column in zip(*runs, strict=True))
        voter = None
        if self.crowd is not None:
            voter = hash_texts([f"voter-{k}" for k in range(len(self.crowd.shares))])[v]
        return CodedBattles(a.astype(np.uint16), b.astype(np.uint16), kind, prompt=keys[p], voter=voter)

    def draw_prompts(self, n: int, rng: np.random.Generator) -> Ints:
        """The prompts of ``n`` battles that are chosen without a matchmaker."""
        prompts, shares = self.effect.shape[1], self.prompt_shares
        return rng.integers(0, prompts, n) if shares is None else rng.choice(prompts, n, p=shares)

    def present(self, at: int = 0) -> npt.NDArray[np.int64]:
        """The models present after ``at`` votes."""
        every = range(len(self.models))
        return np.flatnonzero([self.joins.get(k, 0) <= at < self.leaves.get(k, at + 1) for k in every])

    def changes(self) -> tuple[int, ...]:
        """The times at which models join or leave."""
        return tuple(sorted({*self.joins.values(), *self.leaves.values()}))

    def strengths(self, at: int = 0) -> Floats:
        """Strengths at a time, in logits: they change if models drift."""
        if self.drift is None:
            return self.strength
        every = np.arange(len(self.models))
        return self.strength + self.drift.of_all(every, np.full(len(every), at))

    def truth(
        self,
        *,
        these_prompts: bool = False,
        at: int | None = None,
        prompt_weights: Floats | None = None,
    ) -> Floats:
        """The true ratings (mean zero, points): the Bradley–Terry fit to infinitely many honest battles.

        Over the population that prompts are drawn from or, with ``these_prompts``, over this
        world's own prompts, evenly or by ``prompt_weights``; over the population that voters are drawn
        from in any case. Pairs and sides are uniform, a tie is half a win. Dead prompts decide nothing
        and are excluded. Lazy voters, who shrink all gaps, are included; rigged votes are not.

        With ``at``, for the models present at that time with their strengths then; the others are NaN.
        Without it, for all models with their initial strengths.
        """
        present = np.arange(len(self.models)) if at is None else self.present(at)
        strength, effect = self.strengths(at or 0)[present], self.effect[present]
        voter_sd = 0.0 if self.crowd is None else self.crowd.effect_sd
        if these_prompts:
            # Win probability of each model against each other without lazy voters, averaged over both sides.
            #
            # Computed model by model, because all gaps at once would not fit in memory for many prompts.
            alive = [p for p in range(effect.shape[1]) if p not in self.dead]
            weight = np.ones(len(alive)) if prompt_weights is None else prompt_weights[alive]
            weight = weight / weight.sum()
            ability = strength[:, None] + effect[:, alive]
            won = np.stack(
                [_both_sides(mine - ability, voter_sd, self.position_bias) @ weight for mine in ability]
            )
        else:
            won = average_win(strength, math.hypot(self.effect_sd, voter_sd), self.position_bias)
        share = self.ties / (1.0 - self.both_bad)
        score = share / 2.0 + (1.0 - share) * self._with_lazy(won)
        i, j = np.triu_indices(len(present), 1)
        pairs = PairScores(len(present), i, j, np.ones(len(i)), score[i, j], np.zeros(len(i)))
        truth = np.full(len(self.models), np.nan)
        truth[present] = newton.fit_pairs(pairs, bread=False).theta * POINTS_PER_LOGIT
        return truth

    def true_order(self, *, these_prompts: bool = False, at: int | None = None) -> npt.NDArray[np.int64]:
        """The models in true order, without those absent at that time."""
        truth = self.truth(these_prompts=these_prompts, at=at)
        order = np.argsort(-truth, kind="stable")
        return order[~np.isnan(truth[order])]

    def _with_lazy(self, won: Floats) -> Floats:
        return won if self.lazy == 0.0 else self.lazy / 2.0 + (1.0 - self.lazy) * won


def average_win(strength: Floats, effect_sd: float, position_bias: float = 0.0) -> Floats:
    """Win probability of row model against column model over normal effects of each, averaged over both sides."""
    return _both_sides(strength[:, None] - strength[None, :], effect_sd, position_bias)


def _both_sides(gaps: Floats, effect_sd: float, bias: float) -> Floats:
    """Win probability at these gaps, averaged over the two sides and over normal effects of both models."""
    if effect_sd == 0.0:
        return np.asarray(0.5 * (expit(gaps + bias) + expit(gaps - bias)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(_QUADRATURE_NODE_COUNT)
    won = np.zeros_like(gaps)
    for node, weight in zip(math.sqrt(2.0) * effect_sd * nodes, weights / weights.sum(), strict=True):
        won += weight * 0.5 * (expit(gaps + node + bias) + expit(gaps + node - bias))
    return won
