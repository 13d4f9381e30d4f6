"""Simulated worlds in which voters write their own prompts, and an arena in such a world.

Some prompts are popular and typed by many, others are a voter's own. A model's success depends on the prompt, on its
category, on the voter's taste and on the kind of prompts that this voter writes. How active a voter is, and how popular
a prompt, is unrelated to these effects.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import Kind
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.ratings import newton
from tiltyard.core.ratings.pairs import PairScores
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Floats
from tiltyard.simulation.simulated_arena import ExposureObserver
from tiltyard.simulation.worlds import POINTS_PER_LOGIT, average_win

#: Each category is written in so much less often than the one before it.
_CATEGORY_RATIO = 0.6
#: How closely a voter keeps to some categories: the smaller, the closer.
_HABIT_WEIGHT = 2.0
_LEVELLING_ROUND_COUNT = 30

#: Votes between updates of the ratings, as between the snapshots of an arena.
_RANK_INTERVAL_VOTES = 10


@dataclass(frozen=True, slots=True)
class LiveWorldSettings:
    """The parameters of a random world with free prompts. Spreads are in logits, that of strengths in points."""

    models: int = 10
    strength_sd: float = 200.0
    #: All models are equal over the whole mix of categories, though not in each; or they are equal in pairs.
    equal: bool = False
    clones: bool = False
    #: Model × prompt, model × category, and model × voter.
    effect_sd: float = 0.5
    category_sd: float = 0.0
    voter_sd: float = 0.5
    #: Model × the kind of prompts that a voter writes, and how far that goes with the voter's taste: from −1 to 1.
    own_sd: float = 0.0
    own_taste: float = 0.7
    categories: int = 1
    voters: int = 200
    #: Share of the votes that one voter in ten casts; 0.1: all cast the same number.
    heavy_share: float = 0.1
    #: Share of the votes on prompts that many type, their number, and Zipf's exponent.
    popular_share: float = 0.0
    popular: int = 200
    zipf: float = 1.1
    #: Share of a voter's own prompts that it has typed before.
    retyped: float = 0.1
    ties: float = 0.16
    both_bad: float = 0.07
    lazy: float = 0.05
    position_bias: float = 0.1

    def __post_init__(self) -> None:
        shares = ("heavy_share", "popular_share", "retyped", "ties", "both_bad", "lazy")
        for name in shares:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise BadOption(f"{name} is {getattr(self, name)}; expected a share between 0 and 1")
        if self.models < 2 or min(self.categories, self.voters, self.popular) < 1:
            raise BadOption("expected at least 2 models, 1 category, 1 voter and 1 popular prompt")
        if self.ties + self.both_bad >= 1.0 or not -1.0 <= self.own_taste <= 1.0:
            raise BadOption("ties and both_bad must leave some votes, and own_taste be between -1 and 1")

    @property
    def own_voter_sd(self) -> float:
        """The spread of all that a voter does to a model on the voter's own prompts."""
        together = 2.0 * self.own_taste * self.voter_sd * self.own_sd
        return math.sqrt(self.voter_sd**2 + self.own_sd**2 + together)


@dataclass(frozen=True, slots=True, eq=False)
class TypedPrompt:
    """What a voter has just typed: the number of the prompt, from 1 up, its category, and each model's effect on it."""

    voter: int
    number: int
    category: int
    effect: Floats


@dataclass(slots=True, eq=False)
class LiveWorld:
    """Models, voters and categories; and the prompts that have been typed so far, which get the next numbers."""

    settings: LiveWorldSettings
    models: tuple[str, ...]
    strength: Floats
    #: Models × categories, and the share of each category.
    category_effect: Floats
    category_shares: Floats
    #: Models × voters: tastes, and what the voter's own prompts add.
    taste: Floats
    own: Floats
    voter_shares: Floats
    #: Voters × categories: what each writes about.
    habits: Floats
    popular_shares: Floats
    #: By popular prompt, once it was typed; by voter, its own.
    popular: dict[int, TypedPrompt] = field(default_factory=dict)
    written: dict[int, list[TypedPrompt]] = field(default_factory=dict)
    n_prompts: int = 0
    _voters: Floats = field(init=False)
    _popular: Floats = field(init=False)
    _categories: Floats = field(init=False)
    _habits: Floats = field(init=False)

    def __post_init__(self) -> None:
        self._voters, self._popular = np.cumsum(self.voter_shares), np.cumsum(self.popular_shares)
        self._categories, self._habits = np.cumsum(self.category_shares), np.cumsum(self.habits, axis=1)

    def type(self, rng: np.random.Generator) -> TypedPrompt:
        """The next voter, and the prompt that this voter types."""
        settings = self.settings
        voter = _drawn(self._voters, rng)
        if rng.random() < settings.popular_share:
            which = _drawn(self._popular, rng)
            if which not in self.popular:
                self.popular[which] = self._new(voter, self._categories, rng)
            known = self.popular[which]
            return TypedPrompt(voter, known.number, known.category, known.effect + self.taste[:, voter])
        own = self.written.setdefault(voter, [])
        if own and rng.random() < settings.retyped:
            return own[int(rng.integers(len(own)))]
        fresh = self._new(voter, self._habits[voter], rng)
        effect = fresh.effect + self.taste[:, voter] + self.own[:, voter]
        own.append(TypedPrompt(voter, fresh.number, fresh.category, effect))
        return own[-1]

    def vote(self, a: int, b: int, prompt: TypedPrompt, rng: np.random.Generator) -> Kind:
        """How the voter ends a matchup on this prompt, with ``a`` on side A."""
        settings, other = self.settings, rng.random()
        if other < settings.ties:
            return Kind.TIE
        if other < settings.ties + settings.both_bad:
            return Kind.BOTH_BAD
        d = self.strength[a] - self.strength[b] + prompt.effect[a] - prompt.effect[b] + settings.position_bias
        won = 0.5 + (0.5 - 0.5 * settings.lazy) * math.tanh(0.5 * d)
        return Kind.WIN_A if rng.random() < won else Kind.WIN_B

    def truth(self) -> Floats:
        """The true ratings (mean zero, points): the fit to infinitely many votes of voters and prompts like these.

        Pairs are uniform; categories come as often as voters write in them.
        """
        settings, m = self.settings, len(self.models)
        won = np.zeros((m, m))
        kinds = (
            (settings.popular_share, settings.voter_sd),
            (1.0 - settings.popular_share, settings.own_voter_sd),
        )
        for category, share in enumerate(self.category_shares.tolist()):
            strength = self.strength + self.category_effect[:, category]
            for part, voter_sd in kinds:
                spread = math.hypot(settings.effect_sd, voter_sd)
                won += share * part * average_win(strength, spread, settings.position_bias)
        ties = settings.ties / (1.0 - settings.both_bad)
        score = ties / 2.0 + (1.0 - ties) * (settings.lazy / 2.0 + (1.0 - settings.lazy) * won)
        i, j = np.triu_indices(m, 1)
        pairs = PairScores(m, i, j, np.ones(len(i)), score[i, j], np.zeros(len(i)))
        return np.asarray(newton.fit_pairs(pairs, bread=False).theta * POINTS_PER_LOGIT)

    def votes(self, n: int, rng: np.random.Generator) -> Events:
        """The next ``n`` votes, on uniform pairs."""
        m = len(self.models)
        rows = []
        for a, step in rng.integers(0, (m, m - 1), (n, 2)).tolist():
            b, prompt = (a + 1 + step) % m, self.type(rng)
            kind = self.vote(a, b, prompt, rng)
            on = {"prompt": prompt.category, "free_prompt": prompt.number, "session": prompt.voter}
            rows.append({"event": int(Event.VOTE), "a": a, "b": b, "kind": int(kind), **on})
        return Events.of(rows)

    def _new(self, voter: int, categories: Floats, rng: np.random.Generator) -> TypedPrompt:
        """A prompt that nobody has typed before, with the effects of its category; ``categories`` are summed shares."""
        self.n_prompts += 1
        category = _drawn(categories, rng)
        own = rng.normal(0.0, self.settings.effect_sd, len(self.models))
        return TypedPrompt(voter, self.n_prompts, category, own + self.category_effect[:, category])


def draw_live_world(settings: LiveWorldSettings, rng: np.random.Generator) -> LiveWorld:
    """A random world; nothing has been typed in it yet."""
    m, k, v = settings.models, settings.categories, settings.voters
    strength = rng.normal(0.0, settings.strength_sd / POINTS_PER_LOGIT, m)
    by_category = rng.normal(0.0, settings.category_sd, (m, k))
    if settings.clones:
        strength, by_category = (np.repeat(each[::2], 2, axis=0)[:m] for each in (strength, by_category))
    taste, apart = rng.normal(0.0, 1.0, (2, m, v))
    own = settings.own_taste * taste + math.sqrt(1.0 - settings.own_taste**2) * apart
    shares = _shares(_CATEGORY_RATIO ** np.arange(k))
    world = LiveWorld(
        settings=settings,
        models=tuple(f"model-{model:0{len(str(m - 1))}}" for model in range(m)),
        strength=strength,
        category_effect=by_category,
        category_shares=shares,
        taste=settings.voter_sd * taste,
        own=settings.own_sd * own,
        voter_shares=_voter_shares(settings),
        habits=rng.dirichlet(_HABIT_WEIGHT * shares, v) if k > 1 else np.ones((v, 1)),
        popular_shares=_shares(np.arange(1, settings.popular + 1) ** -settings.zipf),
    )
    if settings.equal:
        # Strengths at which all true ratings are the same, whatever the models do in a category.
        world.strength = np.zeros(m)
        for _ in range(_LEVELLING_ROUND_COUNT):
            world.strength = world.strength - world.truth() / POINTS_PER_LOGIT
    return world


def _drawn(summed_shares: Floats, rng: np.random.Generator) -> int:
    """An index by its share. The last sum may be a little less than 1."""
    return min(int(summed_shares.searchsorted(rng.random(), side="right")), len(summed_shares) - 1)


def _shares(weights: npt.NDArray[np.floating[Any]]) -> Floats:
    return np.asarray(weights / weights.sum())


def _voter_shares(settings: LiveWorldSettings) -> Floats:
    heavy = max(round(settings.voters / 10), 1)
    if heavy == settings.voters:
        return np.ones(1)
    shares = np.full(settings.voters, (1.0 - settings.heavy_share) / (settings.voters - heavy))
    shares[:heavy] = settings.heavy_share / heavy
    return shares


class SimulatedLiveArena:
    """One arena: its world, and the standing that a rater would have."""

    def __init__(self, settings: LiveWorldSettings, seed: int) -> None:
        self.world = draw_live_world(settings, np.random.default_rng([seed, 0]))
        self._voters = np.random.default_rng([seed, 1])
        self._chance = np.random.default_rng([seed, 2])
        policy = Policy(free_prompts=True)
        categories = [f"category-{k}" for k in range(settings.categories)]
        self.standing = Standing(policy, self.world.models, categories)
        self.rater = Rater(RaterSettings(), settings.models)
        self.exposures = ExposureObserver(policy)
        #: Matchups for which a rule was relaxed.
        self.given_up = 0
        for model in range(settings.models):
            self.standing.enable(model)
        self.exposures.roster_changed(self.standing)

    def step(self) -> None:
        """One voter types a prompt, is shown two answers, and votes."""
        standing, prompt = self.standing, self.world.type(self._voters)
        asked = np.arange(len(standing.prompts)) == prompt.category
        choice = choose(standing, self._chance, session=prompt.voter, judgeable=asked)
        a, b = choice.left, choice.right
        self.given_up += bool(choice.given_up)
        standing.serve(a, b, choice.prompt, lane=choice.lane, nominal=choice.nominal, session=prompt.voter)
        kind = self.world.vote(a, b, prompt, self._voters)
        standing.vote(a, b, choice.prompt, kind, prompt.voter, prompt.number)
        self.rater.vote(a, b, kind)
        if standing.votes % _RANK_INTERVAL_VOTES == 0:
            standing.rank(self.rater.strengths(standing.enabled))
        self.exposures.watch(standing)
