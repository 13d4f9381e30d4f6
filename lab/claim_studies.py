"""Studies of claims about models: intervals, RD."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lab.interval_coverage import centre_ratings
from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.glicko2 import Glicko2
from tiltyard.simulation.studies import Study
from tiltyard.simulation.worlds import WorldSettings, draw_world_of


@dataclass(frozen=True, slots=True)
class CoveredSettings:
    """A kind of world, and the number of battles of uniform pairs on uniform prompts."""

    world: WorldSettings = field(default_factory=WorldSettings)
    battles: int = 10_000


@dataclass(frozen=True, slots=True)
class CoveredShares:
    """Shares of the models whose true rating on the prompt population lies in their interval."""

    by_prompt: float
    by_battle: float


def measure_coverage(settings: CoveredSettings, seed: int) -> CoveredShares:
    """Whether Bradley–Terry's intervals contain the truth, with and without clustering by prompt."""
    rng = np.random.default_rng([seed, 0])
    world = draw_world_of(settings.world, rng)
    truth, table = world.truth(), world.table(settings.battles, rng)

    def share(method: BradleyTerry, table: Table) -> float:
        _, low, high = centre_ratings(method(table))
        return float(np.mean((low <= truth) & (truth <= high)))

    return CoveredShares(share(BradleyTerry(), table), share(BradleyTerry(clusters="battle"), table))


@dataclass(frozen=True, slots=True)
class RdSettings:
    """Equal models that meet in rounds, with one volatility."""

    volatility: float = 0.06
    models: int = 20
    votes: int = 200


@dataclass(frozen=True, slots=True)
class MeanRd:
    """Mean RD of the models."""

    rd: float


def mean_rd(settings: RdSettings, seed: int) -> MeanRd:
    """RD of equal models after a number of votes each; in each round every model has a matchup."""
    rng = np.random.default_rng([seed, 0])
    half = settings.models // 2
    rounds = np.array([rng.permutation(settings.models)[: 2 * half] for _ in range(settings.votes)])
    a, b = rounds[:, :half].ravel(), rounds[:, half:].ravel()
    kind = np.where(rng.random(len(a)) < 0.5, Kind.WIN_A, Kind.WIN_B).astype(np.uint8)
    glicko2 = Glicko2(kernel="plain", initial_volatility=settings.volatility)
    state = glicko2.initial([str(k) for k in range(settings.models)])
    return MeanRd(float(glicko2.fold(state, CodedBattles(a, b, kind)).rd.mean()))


COVERED: Study[CoveredSettings, CoveredShares] = Study(
    "covered",
    1,
    measure_coverage,
    CoveredShares,
    depends=(
        "tiltyard.core.battles",
        "tiltyard.core.ratings",
        "lab.claim_studies",
        "lab.interval_coverage",
        "tiltyard.simulation.worlds",
    ),
)
RD: Study[RdSettings, MeanRd] = Study(
    "rd", 1, mean_rd, MeanRd, depends=("tiltyard.core.battles", "tiltyard.core.ratings", "lab.claim_studies")
)
