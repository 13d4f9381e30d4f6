"""Prompt coverage: on how many of its prompts a model has been compared well enough.

A cell is a model on a prompt. It is *eligible* if the model and at least one other enabled model
have a response there; *filled* with ``policy.prompt_floor`` decisive votes; *exhausted* if it is
still not filled after ``policy.patience`` times as many attempts. The lanes then let it be, but for
cells of the contender band, which they seek until its own, higher floor is exhausted too.

- strict coverage = filled / eligible. It drives badges and publication.
- attempt-adjusted coverage = (filled + exhausted) / eligible: exhausted cells count as filled,
  because more votes were asked for and did not decide. It says how much is left to do, and is
  shown beside the strict one, never in its place.
- top coverage = the share of eligible cells with ``policy.top_prompt_floor`` decisive votes,
  which models of the contender band are brought to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.prompt_cells import BOTH_BAD, LOSS, TIE, WIN
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.rules import decisive_share, short_prompt_rate, votes_to_gain
from tiltyard.foundation.arrays import Bools, Ints


@dataclass(frozen=True, slots=True)
class ModelCoverage:
    """One model's cells. Shares are ``None`` where no prompt is eligible."""

    eligible: int
    filled: int
    exhausted: int
    strict: float | None
    adjusted: float | None
    #: Share of cells with the contender band's floor.
    top: float | None


def servable_prompts(standing: Standing) -> Bools:
    """Prompts on which somebody can be served now: at least two enabled models have answered them."""
    return np.asarray(standing.cells.n_playing >= 2)


def coverage_of(standing: Standing, model: int) -> ModelCoverage:
    """How far this model's prompts are covered."""
    cells = standing.cells
    eligible, filled = int(cells.n_eligible[model]), int(cells.n_filled[model])
    exhausted = int(cells.n_exhausted[model])
    return ModelCoverage(
        eligible,
        filled,
        exhausted,
        filled / eligible if eligible else None,
        (filled + exhausted) / eligible if eligible else None,
        top_coverage(standing, model),
    )


def top_coverage(standing: Standing, model: int) -> float | None:
    """Share of the model's eligible prompts with the contender band's floor of decisive votes."""
    eligible = standing.cells.eligible[model]
    if not eligible.any():
        return None
    return float((_decisive(standing, model)[eligible] >= standing.policy.top_prompt_floor).mean())


def band_top_coverage(standing: Standing) -> float | None:
    """Mean of that share over the contender band; ``None`` where a share is wanting."""
    shares = [top_coverage(standing, model) for model in np.flatnonzero(standing.in_band).tolist()]
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known and len(known) == len(shares) else None


def count_lacking_cells(standing: Standing, model: int) -> Ints:
    """How many of the model's cells lack so many decisive votes: entry n lacks n. None are exhausted."""
    policy = standing.policy
    tally = standing.cells.tally[model]
    decisive = _decisive(standing, model)
    attempts = decisive + tally[:, TIE] + tally[:, BOTH_BAD]
    sought = standing.cells.eligible[model] & (attempts < policy.patience * policy.prompt_floor)
    lacking = np.maximum(policy.prompt_floor - decisive[sought], 0)
    counts = np.bincount(lacking, minlength=policy.prompt_floor + 1)
    counts[0] = 0
    return counts


def decisive_votes_to_fill(lacking: Ints, more: int) -> float:
    """Decisive votes that fill ``more`` of such cells, those first that lack fewest; infinite if too few are left."""
    total = 0
    for votes, cells in enumerate(lacking.tolist()):
        taken = min(cells, more)
        total, more = total + votes * taken, more - taken
    return math.inf if more > 0 else float(total)


def decisive_votes_to_mean(lacking: Ints, eligible: Ints, gap: float) -> float:
    """Decisive votes that raise the mean coverage of these models by ``gap``; infinite if nothing can.

    ``lacking`` has a row of `count_lacking_cells` for each. A filled cell of a model with n eligible cells
    raises the mean of k models by 1/(k·n), so that cells are filled first which raise it most by vote.
    """
    models, votes = np.nonzero(lacking)
    wanted, total = gap * len(eligible), 0.0
    cheapest = np.argsort(votes * eligible[models], kind="stable")
    for model, each in zip(models[cheapest].tolist(), votes[cheapest].tolist(), strict=True):
        n = int(eligible[model])
        taken = min(int(lacking[model, each]), cells_to_coverage(n, 0.0, wanted))
        total, wanted = total + each * taken, wanted - taken / n
    return math.inf if wanted > 1e-9 else total


def cells_to_coverage(eligible: int, covered: float, bar: float) -> int:
    """How many more cells must be filled for coverage to reach its bar."""
    return max(math.ceil((bar - covered) * eligible - 1e-9), 0)


def votes_to_coverage(standing: Standing, model: int, bar: float) -> float:
    """Votes of this model until its strict coverage reaches ``bar``.

    Decisive votes missing in the cells that lack fewest, over the arena's decisive share and the
    share of votes that hit a cell which is short (`pace.coverage_hits`). Infinite if exhausted
    cells would have to be filled after all, or if there is nothing to go by.
    """
    eligible = int(standing.cells.n_eligible[model])
    if not eligible:
        return math.inf
    covered = int(standing.cells.n_filled[model]) / eligible
    more = cells_to_coverage(eligible, covered, bar)
    useful = decisive_share(standing) * short_prompt_rate(standing, covered, bar)
    missing = decisive_votes_to_fill(count_lacking_cells(standing, model), more)
    return votes_to_gain(missing, useful)


def _decisive(standing: Standing, model: int) -> npt.NDArray[np.int32]:
    tally = standing.cells.tally[model]
    return np.asarray(tally[:, WIN] + tally[:, LOSS])
