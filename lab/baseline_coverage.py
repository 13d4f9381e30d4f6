"""Measures the coverage of intervals of win rates against a baseline, in worlds with a known rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.battles.battle import JUDGMENT_WEIGHT
from tiltyard.core.board.win_rates import BaselineRow, BaselineRule, baseline_win_rates
from tiltyard.core.ratings import BradleyTerry

#: No prompt has more battles than this.
_MOST_BATTLES = 10_000


@dataclass(frozen=True, slots=True)
class BaselineWorld:
    """Prompts on which a model wins at rates drawn from a beta distribution."""

    prompts: int
    rate: float
    #: Battles on each prompt; with ``tail`` they follow a Pareto distribution of that shape.
    battles: int = 1
    tail: float | None = None
    #: The correlation of two battles on one prompt.
    alike: float = 0.0
    #: Verdicts weigh 1 or 3 with even chances, by arena-hard's rule.
    strong: bool = False

    def row(self, rng: np.random.Generator) -> BaselineRow:
        """The model's row in one draw of the world."""
        rule: BaselineRule = "arena-hard" if self.strong else "battles"
        return baseline_win_rates(self._table(rng), "base", rule, BradleyTerry()).rows[0]

    def _table(self, rng: np.random.Generator) -> Table:
        sizes = np.full(self.prompts, self.battles)
        if self.tail is not None:
            drawn = 1.0 + self.battles * rng.pareto(self.tail, self.prompts)
            sizes = np.minimum(drawn, _MOST_BATTLES).astype(int)
        rates = np.full(self.prompts, self.rate)
        if self.alike:
            both = 1.0 / self.alike - 1.0
            rates = rng.beta(self.rate * both, (1.0 - self.rate) * both, self.prompts)
        number = np.repeat(np.arange(self.prompts), sizes)
        n = len(number)
        kind = np.where(rng.random(n) < rates[number], Kind.WIN_A, Kind.WIN_B).astype(np.uint8)
        weight = rng.choice([1.0, 3.0], (n, 1)) if self.strong else None
        log = CodedBattles(
            np.ones(n, np.uint16),
            np.zeros(n, np.uint16),
            kind,
            (number + 1).astype(np.uint64),
            covariates=weight,
        )
        return Table.from_codes(("base", "new"), log, covariates=(JUDGMENT_WEIGHT,) if self.strong else ())


@dataclass(frozen=True, slots=True)
class BaselineCoverage:
    """How often the interval of a win rate holds the rate, of those that are given."""

    world: BaselineWorld
    covered: float
    refused: float
    #: Mean width of the interval.
    width: float


def baseline_coverage(world: BaselineWorld, worlds: int, seed: int = 0) -> BaselineCoverage:
    """Draw a world many times."""
    rng = np.random.default_rng(seed)
    ends = [(row.win_rate_low, row.win_rate_high) for row in (world.row(rng) for _ in range(worlds))]
    given = np.array([(low, high) for low, high in ends if low is not None and high is not None])
    held = (given[:, 0] <= world.rate) & (world.rate <= given[:, 1])
    return BaselineCoverage(
        world, float(held.mean()), 1.0 - len(given) / worlds, float((given[:, 1] - given[:, 0]).mean())
    )
