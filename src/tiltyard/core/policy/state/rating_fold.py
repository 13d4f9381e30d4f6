"""The rater: every rating used by the policy, updated vote by vote.

Glicko-2 is the policy's main state and gives the conservative score; online Bradley–Terry gives
the matchmaker its uncertainty; Elo is the legacy rating that boards showed before. Only Elo moves
by both_bad: each of the two models loses to a fixed opponent of the start rating.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict, final

import numpy as np

from tiltyard.core.battles import CodedBattles
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.ratings.glicko2 import Glicko2
from tiltyard.core.ratings.kernels.exponential import exp
from tiltyard.core.ratings.kernels.glicko2 import GLICKO_POINTS, Glicko2State, fold_votes
from tiltyard.core.ratings.online_bradley_terry import OnlineBradleyTerry, OnlineState
from tiltyard.core.ratings.pairs import require_number
from tiltyard.core.ratings.portable_functions import LN_10
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Bools, Floats

_LOGITS_PER_POINT = LN_10 / 400.0


@dataclass(frozen=True, slots=True)
class RaterSettings:
    """The three methods and their parameters."""

    glicko2: Glicko2 = field(default_factory=lambda: Glicko2(kernel="plain"))
    online: OnlineBradleyTerry = field(default_factory=OnlineBradleyTerry)
    elo_start: float = 1500.0
    elo_k: float = 16.0

    @classmethod
    def with_volatility(cls, volatility: Any) -> RaterSettings:
        """The defaults, but for the volatility with which models start."""
        require_number(
            "volatility", volatility, lambda value: 0.0 < value <= 1.0, "a number above 0, at most 1"
        )
        return cls(glicko2=Glicko2(kernel="plain", initial_volatility=volatility))

    def __post_init__(self) -> None:
        if self.glicko2.kernel != "plain":
            raise BadOption(
                "the rater folds single votes, which is fast only with the plain kernel of Glicko-2"
            )


class Rater:
    """Ratings of all models after the votes so far. Folding one by one or in bulk gives the same bits, on every machine."""

    def __init__(self, settings: RaterSettings, models: int) -> None:
        self.settings = settings
        first = settings.glicko2.initial([str(k) for k in range(models)])
        # Lists, because a single vote reads and writes a few numbers, for which arrays are slow.
        self._mu: list[float] = first.mu.tolist()
        self._phi2: list[float] = first.phi2.tolist()
        self._sigma2: list[float] = first.sigma2.tolist()
        self._elo = [settings.elo_start] * models
        self.online: OnlineState = settings.online.initial(models)
        self.votes = 0
        self._score: list[float] = settings.glicko2.scoring().by_kind().tolist()

    def vote(self, a: int, b: int, kind: int) -> None:
        """Fold one vote; both_bad changes legacy Elo only."""
        self.votes += 1
        y = self._score[kind]
        glicko2 = self.settings.glicko2
        fold_votes([a], [b], [y], self._mu, self._phi2, self._sigma2, glicko2.tau, glicko2.phi2_floor)
        self.settings.online.fold(self.online, a, b, kind)
        self._rate_elo(a, b, y)

    def fold(self, votes: CodedBattles) -> None:
        """Fold votes in order, method by method, because the methods are independent."""
        glicko2 = self.settings.glicko2
        a, b = votes.a.tolist(), votes.b.tolist()
        score = [self._score[kind] for kind in votes.kind.tolist()]
        fold_votes(a, b, score, self._mu, self._phi2, self._sigma2, glicko2.tau, glicko2.phi2_floor)
        self.settings.online.fold_many(self.online, votes)
        for left, right, y in zip(a, b, score, strict=True):
            self._rate_elo(left, right, y)
        self.votes += len(votes)

    def _rate_elo(self, a: int, b: int, y: float) -> None:
        elo, start, k = self._elo, self.settings.elo_start, self.settings.elo_k
        if y != y:  # both_bad
            for model in (a, b):
                elo[model] -= k / (1.0 + exp(_LOGITS_PER_POINT * (start - elo[model])))
            return
        change = k * (y - 1.0 / (1.0 + exp(_LOGITS_PER_POINT * (elo[b] - elo[a]))))
        elo[a] += change
        elo[b] -= change

    @property
    def elo(self) -> Floats:
        """Legacy Elo, in points."""
        return np.array(self._elo)

    @property
    def volatility(self) -> Floats:
        """That of Glicko-2."""
        return self.glicko2(()).volatility

    def glicko2(self, models: tuple[str, ...]) -> Glicko2State:
        """The state of Glicko-2, with model names."""
        return Glicko2State(
            models=models,
            mu=np.array(self._mu),
            phi2=np.array(self._phi2),
            sigma2=np.array(self._sigma2),
            start=self.settings.glicko2.start,
            votes=self.votes,
            kernel="plain",
        )

    def strengths(self, enabled: Bools, *, neighbours: int = 32) -> Strengths:
        """The input of the lanes and rules; P(misorder) for the first ``neighbours`` ranks."""
        state = self.glicko2(())
        strengths = Strengths(state.rating, state.rd, self.online.se, np.zeros(len(self._mu)))
        top = strengths.order(enabled)[: neighbours + 1]
        if len(top) > 1:
            wrong = self.online.misorder(top[:-1], top[1:])
            strengths.misorder[top[:-1]] = wrong
            strengths.misorder[top[1:]] = np.maximum(strengths.misorder[top[1:]], wrong)
        return strengths

    def votes_to_pass(self, behind: int, ahead: int, *, elo: bool, limit: int) -> int | None:
        """How many more wins of one model over another would put it above, by conservative score or by Elo.

        ``None`` if ``limit`` votes are not enough. The ratings stay as they are.
        """
        pair, votes, glicko2 = (behind, ahead), 0, self.settings.glicko2
        if elo:
            one, other = (self._elo[model] for model in pair)
            while one <= other and votes < limit:
                votes += 1
                change = self.settings.elo_k * (1.0 - 1.0 / (1.0 + exp(_LOGITS_PER_POINT * (other - one))))
                one, other = one + change, other - change
            return votes if one > other else None
        mu, phi2, sigma2 = (
            [values[model] for model in pair] for values in (self._mu, self._phi2, self._sigma2)
        )

        def is_above() -> bool:
            return mu[0] - 2.0 * math.sqrt(phi2[0]) > mu[1] - 2.0 * math.sqrt(phi2[1])

        while not is_above() and votes < limit:
            votes += 1
            fold_votes([0], [1], [1.0], mu, phi2, sigma2, glicko2.tau, glicko2.phi2_floor)
        return votes if is_above() else None

    def widen(self, models: int) -> None:
        """Add more models, with the initial ratings."""
        more = Rater(self.settings, models - len(self._mu))
        self._mu += more._mu
        self._phi2 += more._phi2
        self._sigma2 += more._sigma2
        self._elo += more._elo
        self.online = self.online.widened(models)

    def start_at_rating(self, model: int, points: float) -> None:
        """Start a model without votes at another rating: for simulations of a wrong initial rating."""
        self._mu[model] = (points - self.settings.glicko2.start) / GLICKO_POINTS

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON preserves exactly."""
        return {
            "mu": list(self._mu),
            "phi2": list(self._phi2),
            "sigma2": list(self._sigma2),
            "elo": list(self._elo),
            "online": self.online.to_dict(),
            "votes": self.votes,
        }

    @classmethod
    def from_dict(cls, settings: RaterSettings, saved: Mapping[str, Any]) -> Rater:
        rater = cls(settings, len(saved["mu"]))
        rater._mu, rater._phi2 = list(saved["mu"]), list(saved["phi2"])
        rater._sigma2 = list(saved["sigma2"])
        rater._elo, rater.votes = list(saved["elo"]), int(saved["votes"])
        rater.online = OnlineState.from_dict(saved["online"])
        return rater


@final
class MethodValues(TypedDict):
    """A policy and its ratings as JSON."""

    policy: dict[str, object]
    rater: dict[str, object]


def method_to_dict(policy: Policy, settings: RaterSettings | None = None) -> MethodValues:
    """What an arena's log says of its policy and ratings, as plain values."""
    return {"policy": policy.to_dict(), "rater": asdict(RaterSettings() if settings is None else settings)}


def method_from_dict(said: Mapping[str, Any]) -> tuple[Policy, RaterSettings]:
    """The policy and ratings of `method_to_dict`; what is not named has its default."""
    policy, rater = dict(said["policy"]), dict(said.get("rater") or {})
    if "lane_weights" in policy:
        policy["lane_weights"] = tuple(policy["lane_weights"])
    if "glicko2" in rater:
        rater["glicko2"] = Glicko2(**{"kernel": "plain", **rater["glicko2"]})
    if "online" in rater:
        rater["online"] = OnlineBradleyTerry(**rater["online"])
    try:
        return Policy(**policy), RaterSettings(**rater)
    except TypeError as error:
        raise BadOption(f"a policy or its ratings cannot be read: {error}") from None
