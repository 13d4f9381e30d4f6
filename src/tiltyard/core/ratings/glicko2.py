"""Glicko-2, updated vote by vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.kernels.exponential import exp
from tiltyard.core.ratings.kernels.glicko2 import GLICKO_POINTS, Glicko2State, fold_votes
from tiltyard.core.ratings.pairs import (
    Scoring,
    count_records,
    data_findings,
    disconnected_finding,
    numbered_groups,
    require_above_zero,
    require_at_least,
    score_pairs,
)
from tiltyard.core.ratings.result import Ratings
from tiltyard.errors import CannotRate
from tiltyard.foundation.compiled_kernels import (
    KernelChoice,
    choose_kernel,
    compile_kernel,
)


@dataclass(frozen=True, slots=True)
class Glicko2:
    """Rating, RD and volatility per model, updated by each vote in log order.

    RD is Glicko-2's own measure of uncertainty. It is used for matchmaking and the
    conservative order; it is not a confidence interval and is never shown as one. The default
    volatility suits models, which are fixed versions and do not change; the textbook's 0.06
    keeps RD near 60 permanently.
    """

    start: float = 1500.0
    #: RD and volatility at the start; the textbook has a volatility of 0.06.
    initial_rd: float = 350.0
    initial_volatility: float = 0.003
    #: How fast volatility may change.
    tau: float = 0.5
    #: RD never falls below it.
    rd_floor: float = 0.0
    ties: Literal["half", "drop"] = "half"
    lean: float = 0.75
    inconsistent: float = 0.5
    kernel: KernelChoice = "auto"

    def __post_init__(self) -> None:
        for name in ("initial_rd", "initial_volatility", "tau"):
            require_above_zero(name, getattr(self, name))
        require_at_least("rd_floor", self.rd_floor, 0)
        self.scoring()

    @property
    def name(self) -> str:
        return "glicko-2"

    def initial(self, models: Sequence[str], *, votes: int = 0) -> Glicko2State:
        """The initial state of every model, for a log of about this many ``votes``."""
        m = len(models)
        return Glicko2State(
            models=tuple(models),
            mu=np.zeros(m),
            phi2=np.full(m, _square(self.initial_rd / GLICKO_POINTS)),
            sigma2=np.full(m, _square(self.initial_volatility)),
            start=self.start,
            votes=0,
            kernel=choose_kernel(self.kernel, votes),
        )

    def fold(self, state: Glicko2State, votes: CodedBattles) -> Glicko2State:
        """The state after these votes. Codes index ``state.models``; the given state is not modified."""
        if self.kernel not in ("auto", state.kernel):
            raise CannotRate(
                f"this state was made by the {state.kernel} kernel and cannot be resumed with the {self.kernel} one"
            )
        mu, phi2, sigma2 = state.mu.copy(), state.phi2.copy(), state.sigma2.copy()
        run = compile_kernel(fold_votes, exp) if state.kernel == "compiled" else fold_votes
        score = self.scoring().of(votes)
        run(votes.a, votes.b, score, mu, phi2, sigma2, self.tau, self.phi2_floor)
        return replace(state, mu=mu, phi2=phi2, sigma2=sigma2, votes=state.votes + len(votes))

    def __call__(self, table: Table) -> Ratings:
        state = self.initial(table.models, votes=table.n_battles)
        for run in table.scan():
            state = self.fold(state, run)
        record = count_records(table.counts, len(table.models), self.scoring())
        pairs = score_pairs(table.counts, len(table.models), self.scoring())
        played = pairs.met
        findings = data_findings(table, record, played)
        if table.counts.sums is not None and (table.counts.sums[:, 0] != table.counts.n).any():
            findings.append(Finding("weights-ignored"))
        findings += disconnected_finding(table.models, pairs, played)
        return Ratings(
            method=self,
            models=table.models,
            rating=np.where(played, state.rating, np.nan),
            group=numbered_groups(pairs, played),
            record=record,
            findings=tuple(findings),
            extras={"rd": state.rd, "volatility": state.volatility, "state": state, "kernel": state.kernel},
        )

    def scoring(self) -> Scoring:
        """The score of each kind of battle under these parameters."""
        return Scoring(self.ties, self.lean, self.inconsistent)

    @property
    def phi2_floor(self) -> float:
        """The minimum of φ² that follows from the floor of RD."""
        return _square(self.rd_floor / GLICKO_POINTS)


def _square(x: float) -> float:
    """A product, which is rounded alike everywhere; the last bit of a power is the library's."""
    return x * x
