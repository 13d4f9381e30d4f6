"""Simulated arenas: a world's voters, a matchmaker, the ratings and the rules, vote by vote; and their event logs.

What an arena would show and do is compared with what is true in its world.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tiltyard.core.board.cross_check import batch_ratings
from tiltyard.core.board.settled_order import LIKE_THESE, settled_orders
from tiltyard.core.policy.matchmaking.eligible_pairs import draw_index
from tiltyard.core.policy.matchmaking.matchmaker import Choice, choose
from tiltyard.core.policy.state.events import NO_SESSION, Event, Events
from tiltyard.core.policy.state.policy import Lane, Policy
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.publication import Evaluation, EvaluationHistory, look
from tiltyard.core.ratings import newton
from tiltyard.core.ratings.glicko2 import Glicko2
from tiltyard.core.ratings.pairs import pairs_from_points
from tiltyard.errors import BadOption, NoMatchup
from tiltyard.foundation.arrays import Floats, Ints
from tiltyard.simulation.studies import Study
from tiltyard.simulation.worlds import World, WorldSettings, draw_world_of

#: Number of truly best models whose order is checked.
TOP_MODEL_COUNT = 10
#: Matchups after joining in which a newcomer's share is counted.
NEWCOMER_MATCHUPS = 200
#: Range of votes in which changes of the first place are counted.
FIRST_PLACE_SPAN_VOTES = (20_000, 25_000)

_DAY_SECONDS = 86_400
#: When simulated arenas open: the first of January 2024, a Monday, at midnight.
_OPENING_SECONDS = 1_704_067_200

#: Chooses the next matchup from a standing, a random generator and a voter's session.
Matchmaker = Callable[[Standing, np.random.Generator, int], Choice]


class TrueOrder:
    """The true order of the present models, recomputed when strengths or models change."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._key: tuple[bytes, bytes] | None = None
        self._order: Ints = np.empty(0, dtype=np.int64)

    def order(self, at: int) -> Ints:
        key = self._world.strengths(at).tobytes(), self._world.present(at).tobytes()
        if key != self._key:
            self._key, self._order = key, self._world.true_order(these_prompts=True, at=at)
        return self._order


class ExposureObserver:
    """Measures exposures and lanes once the window is full."""

    def __init__(self, policy: Policy) -> None:
        self._window = policy.window
        self._watch_from = policy.window
        self._lanes: Ints | None = None
        self.outside = self.watched = 0
        self.largest = 0.0

    def roster_changed(self, standing: Standing) -> None:
        self._watch_from = standing.window.served + self._window

    def watch(self, standing: Standing) -> None:
        """Measure the exposures after a matchup."""
        if standing.window.served < self._window:
            return
        if self._lanes is None:
            self._lanes = standing.lanes.copy()
        if standing.window.served < self._watch_from:
            return
        due, exposures = standing.window.due(), standing.window.counted()
        enabled = standing.enabled
        gone = np.abs(exposures - due.target)[enabled]
        self.watched += 1
        self.outside += bool(due.outside(exposures)[enabled].any())
        self.largest = max(self.largest, float((gone / due.target[enabled]).max()))

    def lane_shares(self, standing: Standing) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Nominal and realised shares after the first window; over the whole arena if it is shorter than two windows."""
        lanes = standing.lanes
        if self._lanes is not None and standing.window.served >= 2 * self._window:
            lanes = lanes - self._lanes
        shares = lanes / lanes.sum()
        return tuple(shares.sum(axis=1).tolist()), tuple(shares.sum(axis=0).tolist())


class NewcomerObserver:
    """How often each newcomer was served in its first matchups."""

    def __init__(self) -> None:
        self._served: dict[int, list[int]] = {}

    def join(self, model: int) -> None:
        self._served[model] = [0, 0]

    def serve(self, left: int, right: int) -> None:
        for model, count in self._served.items():
            if count[1] < NEWCOMER_MATCHUPS:
                count[0] += model in (left, right)
                count[1] += 1

    def largest_share(self) -> float | None:
        """``None`` if no newcomer has been present long enough."""
        shares = [mine / n for mine, n in self._served.values() if n == NEWCOMER_MATCHUPS]
        return max(shares, default=None)


def share_in_order(score: Floats, true_order: Ints) -> float:
    """Share of the pairs of the truly first ten whose better model has the higher score."""
    top = score[true_order[:TOP_MODEL_COUNT]]
    above, below = np.triu_indices(len(top), 1)
    return float(np.mean(top[above] > top[below]))


def batch_strengths(points: Floats) -> Floats | None:
    """Bradley–Terry on all votes so far, ties half a win; NaN for models without votes.

    ``points`` are the scores of row models against column models.
    """
    pairs = pairs_from_points(points)
    played = np.flatnonzero(pairs.met)
    pairs = pairs.among(played)
    if not len(played) or pairs.groups(strong=True).any():
        return None
    strengths = np.full(len(points), np.nan)
    strengths[played] = newton.fit_pairs(pairs, bread=False).theta
    return strengths


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The settings of a simulation: world, policy, matchmaker and length."""

    world: WorldSettings = field(default_factory=WorldSettings)
    policy: Policy = field(default_factory=Policy)
    #: policy, v1, uniform, nearest or thompson.
    matchmaker: str = "policy"
    votes: int = 10_000
    #: Votes between updates of the ratings, as between the snapshots of an arena.
    rank_every: int = 10
    #: Share of served matchups that are skipped, or that expire.
    skips: float = 0.0
    expiries: float = 0.0
    #: Number of voter sessions, in rotation; 0: sessions are not tracked. If the world has voters, each is a session.
    sessions: int = 0
    #: The truly best model starts this many points below the others.
    planted: float | None = None
    #: Initial volatility of Glicko-2; the paper uses 0.06.
    volatility: float = 0.003

    def __post_init__(self) -> None:
        matchmaker_of(self.matchmaker)
        if self.votes < 1 or self.rank_every < 1 or self.sessions < 0:
            raise BadOption(
                f"votes is {self.votes}, rank_every {self.rank_every}, sessions {self.sessions}; "
                "expected 1, 1 and 0 or more"
            )
        if self.sessions and self.world.voters:
            raise BadOption(
                f"sessions is {self.sessions}, but the world has {self.world.voters} voters, each with a session; "
                "give one of the two"
            )
        if min(self.skips, self.expiries) < 0.0 or self.skips + self.expiries >= 1.0:
            raise BadOption(
                f"skips is {self.skips} and expiries {self.expiries}; expected shares that leave some votes"
            )


@dataclass(frozen=True, slots=True)
class EvaluationOutcome:
    """The result of an evaluation, and how correct the orders were."""

    votes: int
    #: For each publication rule: name, value, whether it holds.
    rules: tuple[tuple[str, float | None, bool], ...]
    #: The model that is first in the published order.
    first: int
    #: Share of the pairs among the truly best ten that batch Bradley–Terry orders correctly; ``None``
    #: while it cannot be fitted, because some models have only won or only lost.
    in_order: float | None
    #: The same for the published order.
    in_order_published: float
    #: Share of all pairs of models whose order is settled, for prompts and voters like these.
    settled: float


@dataclass(frozen=True, slots=True)
class SimulatedArenaResult:
    """The result of one simulated arena. Codes are those of the world's models.

    Lanes and exposures are looked at once the window is full, and exposures only where the roster
    has been the same for a whole window.
    """

    moments: tuple[EvaluationOutcome, ...]
    #: Votes at which the board first became official.
    official_at: int | None
    #: Shares of the lanes that chose the matchups, and of the lanes that were drawn.
    lanes: tuple[float, ...]
    nominal: tuple[float, ...]
    #: Served matchups after which a model was out of tolerance, and the number checked.
    outside: int
    watched: int
    #: Largest |w − T| / T.
    largest_deviation: float
    #: Matchups for which a rule was relaxed because no other was possible.
    given_up: int
    #: Share of the votes that fell on dead prompts.
    dead_share: float | None
    #: Largest share of a newcomer in the 200 matchups after it joined.
    newcomer_share: float | None
    #: Votes at which the planted model was first among the top three.
    planted_top3_at: int | None
    #: The published order at the end.
    order: tuple[int, ...]


def simulate(settings: SimulationSettings, seed: int) -> SimulatedArenaResult:
    """Simulate one arena. The same seed gives the same world for every matchmaker."""
    arena = SimulatedArena(settings, seed)
    arena.run()
    return arena.result()


class SimulatedArena:
    """The state of a running simulation."""

    def __init__(self, settings: SimulationSettings, seed: int) -> None:
        self.settings = settings
        self.world = draw_world_of(settings.world, np.random.default_rng([seed, 0]))
        self.voters = np.random.default_rng([seed, 1])
        self.chance = np.random.default_rng([seed, 2])
        self.choose = matchmaker_of(settings.matchmaker)
        prompts = [f"prompt-{k}" for k in range(settings.world.prompts)]
        self.standing = Standing(settings.policy, self.world.models, prompts)
        glicko2 = Glicko2(kernel="plain", initial_volatility=settings.volatility)
        self.rater = Rater(RaterSettings(glicko2), len(self.world.models))
        self.history = EvaluationHistory.under(settings.policy)
        self.moments: list[EvaluationOutcome] = []
        self.truth = TrueOrder(self.world)
        self.exposures = ExposureObserver(settings.policy)
        self.newcomers = NewcomerObserver()
        self.changes = [0, *self.world.changes()]
        self.votes = self.given_up = self.dead = 0
        self.planted: int | None = None
        self.planted_top3_at: int | None = None
        if settings.planted is not None:
            self.planted = int(self.world.true_order(these_prompts=True)[0])
            self.rater.start_at_rating(self.planted, glicko2.start - settings.planted)
        self._change_roster()
        self._rank()

    def run(self) -> None:
        """Run to the last vote."""
        while self.votes < self.settings.votes:
            self.step()

    def step(self) -> None:
        """Serve one matchup: voted, skipped or expired."""
        standing, settings = self.standing, self.settings
        session = self._session()
        choice = self.choose(standing, self.chance, session)
        serial = self._serve(choice, session)
        lost = self.voters.random() if settings.skips or settings.expiries else 1.0
        if lost < settings.skips:
            standing.skip()
            self.note(Event.SKIP, serial=serial)
        elif lost < settings.skips + settings.expiries:
            standing.expire(serial)
            self.note(Event.EXPIRE, serial=serial)
        else:
            self._vote(choice, serial, session)
        self.exposures.watch(standing)

    def _session(self) -> int:
        if self.world.crowd is not None:
            return int(self.world.crowd.draw(1, self.voters)[0])
        return self.standing.window.served % self.settings.sessions if self.settings.sessions else NO_SESSION

    def note(self, event: Event, **fields: int) -> None:
        """Called for every event, with the field names of `Events`; a hook for subclasses."""

    def _serve(self, choice: Choice, session: int) -> int:
        self.given_up += bool(choice.given_up)
        self.newcomers.serve(choice.left, choice.right)
        serial = self.standing.serve(
            choice.left,
            choice.right,
            choice.prompt,
            lane=choice.lane,
            nominal=choice.nominal,
            session=session,
        )
        self.note(
            Event.SERVED,
            a=choice.left,
            b=choice.right,
            prompt=choice.prompt,
            lane=choice.lane,
            nominal=choice.nominal,
            serial=serial,
            session=session,
            given_up=len(choice.given_up),
        )
        return serial

    def _vote(self, choice: Choice, serial: int, session: int) -> None:
        left, right, prompt = choice.left, choice.right, choice.prompt
        voter = None if self.world.crowd is None else session
        kind = self.world.vote(left, right, prompt, self.voters, self.votes, voter)
        self.standing.vote(left, right, prompt, kind, session)
        self.rater.vote(left, right, kind)
        self.votes += 1
        self.note(Event.VOTE, a=left, b=right, prompt=prompt, kind=kind, serial=serial, session=session)
        self.dead += prompt in self.world.dead
        if self.changes and self.votes >= self.changes[0]:
            self._change_roster()
        evaluated = self.votes == self.history.next_votes
        if evaluated or self.votes % self.settings.rank_every == 0:
            self._rank()
        if evaluated:
            self._evaluate()

    def _change_roster(self) -> None:
        self.changes = [moment for moment in self.changes if moment > self.votes]
        present = set(self.world.present(self.votes).tolist())
        for model in np.flatnonzero(self.standing.enabled).tolist():
            if model not in present:
                self.standing.retire(model)
                self.note(Event.RETIRE, a=model)
        for model in sorted(present):
            if not self.standing.enabled[model]:
                self.standing.enable(model)
                self.note(Event.ENABLE, a=model)
                if self.votes:
                    self.newcomers.join(model)
        self.exposures.roster_changed(self.standing)

    def _rank(self) -> None:
        self.standing.rank(self.rater.strengths(self.standing.enabled))
        if self.planted_top3_at is None and self.planted in self.standing.order[:3].tolist():
            self.planted_top3_at = self.votes

    def _evaluate(self) -> None:
        before, self.history = len(self.history.evaluations), look(self.standing, self.history)
        if len(self.history.evaluations) == before:
            return
        known = self.history.evaluations[-1]
        true_order = self.truth.order(self.votes)
        score = batch_strengths(self.rater.online.points)
        settled = settled_orders(self.standing, batch_ratings(self.standing))[LIKE_THESE]
        share = float(settled.sum()) / math.comb(len(settled), 2)
        self.moments.append(_moment(known, true_order, score, share))

    def result(self) -> SimulatedArenaResult:
        nominal, lanes = self.exposures.lane_shares(self.standing)
        return SimulatedArenaResult(
            moments=tuple(self.moments),
            official_at=self.history.first_official(),
            lanes=lanes,
            nominal=nominal,
            outside=self.exposures.outside,
            watched=self.exposures.watched,
            largest_deviation=self.exposures.largest,
            given_up=self.given_up,
            dead_share=self.dead / self.votes if self.world.dead else None,
            newcomer_share=self.newcomers.largest_share(),
            planted_top3_at=self.planted_top3_at,
            order=tuple(self.standing.order.tolist()),
        )


def first_changes(
    moments: list[EvaluationOutcome] | tuple[EvaluationOutcome, ...], since: int, until: int
) -> float | None:
    """Share of the steps between evaluations, from ``since`` to ``until`` votes, that changed the first place."""
    firsts = [moment.first for moment in moments if since <= moment.votes <= until]
    if len(firsts) < 2 or moments[-1].votes < until:
        return None
    return sum(one != other for one, other in pairwise(firsts)) / (len(firsts) - 1)


def _moment(known: Evaluation, true_order: Ints, score: Floats | None, settled: float) -> EvaluationOutcome:
    place = np.empty(len(known.rd))
    place[known.order] = np.arange(len(known.order))
    return EvaluationOutcome(
        votes=known.votes,
        rules=tuple((rule.name, rule.value, rule.holds) for rule in known.rules),
        first=int(known.order[0]),
        in_order=None if score is None else share_in_order(score, true_order),
        in_order_published=share_in_order(-place, true_order),
        settled=settled,
    )


#: The packages that the results depend on: other changes do not invalidate the cache.
ARENA: Study[SimulationSettings, SimulatedArenaResult] = Study(
    "arena",
    3,
    simulate,
    SimulatedArenaResult,
    depends=(
        "tiltyard.core.battles",
        "tiltyard.simulation.simulated_arena",
        "tiltyard.simulation.worlds",
        "tiltyard.core.policy.matchmaking",
        "tiltyard.core.board.cross_check",
        "tiltyard.core.board.settled_order",
        "tiltyard.core.ratings",
        "tiltyard.core.policy.state",
        "tiltyard.core.policy.validity.prompt_coverage",
        "tiltyard.core.policy.validity.publication",
        "tiltyard.core.policy.validity.pair_floors",
        "tiltyard.core.policy.validity.rules",
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class ArenaLog:
    """The input of a validity report."""

    events: Events
    models: tuple[str, ...]
    prompts: tuple[str, ...]
    #: Serials of matchups for which a rule was relaxed.
    given_up: npt.NDArray[np.int64]


def arena_log(settings: SimulationSettings, seed: int, *, votes_per_day: int) -> ArenaLog:
    """The events of the arena that `simulate` runs with this seed; votes are spread evenly over the day."""
    arena = _LoggedArena(settings, seed)
    arena.run()
    rows = [
        row | {"time": _OPENING_SECONDS + row["time"] * _DAY_SECONDS // votes_per_day} for row in arena.rows
    ]
    standing = arena.standing
    relaxed = np.array([row["serial"] for row in rows if row.get("given_up")], dtype=np.int64)
    return ArenaLog(Events.of(rows), standing.models, standing.prompts, relaxed)


class _LoggedArena(SimulatedArena):
    """Records the events. Times are counted in votes here and converted later."""

    def __init__(self, settings: SimulationSettings, seed: int) -> None:
        self.rows: list[dict[str, int]] = []
        super().__init__(settings, seed)

    def note(self, event: Event, **fields: int) -> None:
        self.rows.append({"event": event, **fields, "time": self.votes})


def by_policy(standing: Standing, rng: np.random.Generator, session: int) -> Choice:
    """The lanes and the fairness controller of the ranking policy."""
    return choose(standing, rng, session=session)


def by_v1(standing: Standing, rng: np.random.Generator, _session: int) -> Choice:
    """A random prompt, and models weighted by how rarely they were shown."""
    order = _at_least_two(standing)
    weights = 1.0 / (1.0 + standing.shown[order, 0])
    first = draw_index(weights, rng)
    others = weights.copy()
    others[first] = 0.0
    second = draw_index(others, rng)
    total, one, other = weights.sum(), weights[first], weights[second]
    chance = one * other / total * (1.0 / (total - one) + 1.0 / (total - other))
    prompt = _any_prompt(standing, rng)
    return _chosen(
        int(order[first]), int(order[second]), prompt, "v1", float(chance) / len(standing.prompts), rng
    )


def by_chance(standing: Standing, rng: np.random.Generator, _session: int) -> Choice:
    """Any two models on any prompt."""
    order = _at_least_two(standing)
    one, other = rng.choice(order, 2, replace=False).tolist()
    pairs = len(order) * (len(order) - 1) / 2
    return _chosen(
        one, other, _any_prompt(standing, rng), "uniform", 1.0 / pairs / len(standing.prompts), rng
    )


def by_nearest(standing: Standing, rng: np.random.Generator, _session: int) -> Choice:
    """Any model, and one of its neighbours in the published order, on any prompt."""
    order = _at_least_two(standing)
    last = len(order) - 1
    anchor = int(rng.integers(len(order)))
    beside = [place for place in (anchor - 1, anchor + 1) if 0 <= place <= last]
    place = beside[int(rng.integers(len(beside)))]
    # The first and the last model have only one neighbour and always meet it.
    ends = sum(2.0 if at in (0, last) else 1.0 for at in (anchor, place))
    chance = ends / (2.0 * len(order)) / len(standing.prompts)
    return _chosen(int(order[anchor]), int(order[place]), _any_prompt(standing, rng), "nearest", chance, rng)


def by_thompson(standing: Standing, rng: np.random.Generator, _session: int) -> Choice:
    """Thompson sampling: neighbours in an order drawn from the posterior of each model, on any prompt.

    Each strength is drawn independently, normal with the standard error of online Bradley–Terry. The
    propensity of a pair would need an integral that is not used here; it is NaN.
    """
    order = _at_least_two(standing)
    strengths = standing.strengths
    drawn = strengths.rating[order] + strengths.se[order] * rng.standard_normal(len(order))
    place = int(rng.integers(len(order) - 1))
    one, other = order[np.argsort(-drawn)[place : place + 2]].tolist()
    return _chosen(one, other, _any_prompt(standing, rng), "thompson", math.nan, rng)


#: Matchmakers by name.
MATCHMAKERS: Mapping[str, Matchmaker] = MappingProxyType(
    {"policy": by_policy, "v1": by_v1, "uniform": by_chance, "nearest": by_nearest, "thompson": by_thompson}
)


def matchmaker_of(name: str) -> Matchmaker:
    if name not in MATCHMAKERS:
        raise BadOption(f"matchmaker is {name!r}; expected one of {', '.join(MATCHMAKERS)}")
    return MATCHMAKERS[name]


def _chosen(
    one: int, other: int, prompt: int, reason: str, propensity: float, rng: np.random.Generator
) -> Choice:
    left, right = (one, other) if rng.random() < 0.5 else (other, one)
    return Choice(left, right, prompt, Lane.EXPLORATION, Lane.EXPLORATION, reason, propensity)


def _any_prompt(standing: Standing, rng: np.random.Generator) -> int:
    return int(rng.integers(len(standing.prompts)))


def _at_least_two(standing: Standing) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if standing.n_enabled < 2:
        raise NoMatchup(f"{standing.n_enabled} models are enabled, and a matchup needs two: enable more")
    return standing.order
