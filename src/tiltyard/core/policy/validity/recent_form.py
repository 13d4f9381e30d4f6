"""How a model has done: its record, its recent form, its results prompt by prompt.

Results are those that rate skill: a win counts 1, a tie ½, a loss 0. ``both_bad`` votes moved no
rating and are left out of every mean here; they are counted beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.prompt_cells import BOTH_BAD, BOTH_BAD_FLAG_OFFSET, LOSS, TIE, WIN
from tiltyard.core.policy.state.standing import Standing

Floats = npt.NDArray[np.float64]

#: Votes on a prompt from which a mean result there counts.
_MIN_PROMPT_VOTES = 2
#: Prompts from which a spread is given.
_MIN_SPREAD_PROMPTS = 3
_LETTERS = "WLTB"


@dataclass(frozen=True, slots=True)
class VoteRecord:
    """Votes by how they went for one model."""

    wins: int
    losses: int
    ties: int
    both_bad: int

    @property
    def votes(self) -> int:
        """Votes of any kind."""
        return self.rated + self.both_bad

    @property
    def rated(self) -> int:
        """Votes that rate skill: both_bad left out."""
        return self.wins + self.losses + self.ties

    @property
    def win_rate(self) -> float | None:
        """Wins over votes that rate skill, as they went: not corrected for who the opponents were."""
        return self.wins / self.rated if self.rated else None


@dataclass(frozen=True, slots=True)
class RecentForm:
    """The last votes of a model, oldest first: W, L, T or B (both bad) for each."""

    letters: str
    record: VoteRecord
    #: Mean result of those that rate skill.
    score: float | None


def vote_record(standing: Standing, model: int) -> VoteRecord:
    """The model's votes since the log began."""
    return VoteRecord(*standing.record[model].tolist())


def recent_form(standing: Standing, model: int) -> RecentForm:
    """Its last ``policy.form_votes`` votes."""
    last = standing.model_votes.last(model, standing.policy.form_votes) % BOTH_BAD_FLAG_OFFSET
    record = VoteRecord(*(int((last == result).sum()) for result in (WIN, LOSS, TIE, BOTH_BAD)))
    score = (record.wins + record.ties / 2.0) / record.rated if record.rated else None
    return RecentForm("".join(_LETTERS[result] for result in last.tolist()), record, score)


def prompt_results(standing: Standing, model: int) -> Floats:
    """The model's mean result on each prompt where it has at least two votes that rate skill."""
    tally = standing.cells.tally[model]
    rated = tally[:, WIN] + tally[:, LOSS] + tally[:, TIE]
    enough = rated >= _MIN_PROMPT_VOTES
    return np.asarray((tally[enough, WIN] + tally[enough, TIE] / 2.0) / rated[enough])


def average_score(standing: Standing, model: int) -> float | None:
    """Mean over prompts of `prompt_results`: every prompt counts alike, however many votes it drew."""
    results = prompt_results(standing, model)
    return float(results.mean()) if len(results) else None


def prompt_result_spread(standing: Standing, model: int) -> float | None:
    """Population deviation of `prompt_results`, from three prompts on. It holds the votes' own noise too."""
    results = prompt_results(standing, model)
    return float(results.std()) if len(results) >= _MIN_SPREAD_PROMPTS else None


def expected_scores(standing: Standing, model: int) -> Floats:
    """Expected score of this model against every other by rating, a tie counting half; NaN against itself.

    Elo's curve, 1 / (1 + 10^(gap/400)). With ties counted half it is no probability of winning.
    """
    expected = standing.strengths.expected(model)
    expected[model] = np.nan
    return expected
