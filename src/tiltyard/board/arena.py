"""The board of a live arena: rows with badges, and whether the whole is official."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tiltyard.errors import BadOption
from tiltyard.ratings import Finding
from tiltyard.standing.state import Standing
from tiltyard.validity.badges import Badge, badge_of
from tiltyard.validity.consistency import consistencies
from tiltyard.validity.coverage import Coverage, band_top_coverage, coverage_of
from tiltyard.validity.evaluation import History
from tiltyard.validity.form import Form, WinLoss, average_score, confidence, recent_form, record_of, spread
from tiltyard.validity.neighbours import pair_coverage_score
from tiltyard.validity.publication import publication_rules
from tiltyard.validity.quality import Quality, model_quality, quality_findings
from tiltyard.validity.rules import Rule, number

__all__ = ["ArenaBoard", "ArenaRow", "Order", "Phase", "Status", "make_arena_board"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Ratings by legacy Elo and by Bradley–Terry, where they were given.
Others = tuple[Floats | None, Floats | None]
#: What orders the board, once the arena ranks by the policy at all.
Order = Literal["conservative", "bradley-terry"]
#: 1 shadow, 2 lanes, 3 rating, 4 governance.
Phase = Literal[1, 2, 3, 4]
Status = Literal["official", "calibrating"]


@dataclass(frozen=True, slots=True)
class ArenaRow:
    """One model. What the votes do not support is ``None``, never a number."""

    #: Place on the board, 1 first; ``None`` for a retired model.
    rank: int | None
    model: str
    #: Rating − 2·RD, and the two it is made of. RD is bookkeeping, not an interval.
    conservative: float
    rating: float
    rd: float
    #: RD for people: 100·(1 − RD/350).
    confidence: float
    coverage: Coverage
    pair_coverage: float | None
    consistency: float | None
    spread: float | None
    average_score: float | None
    record: WinLoss
    quality: Quality
    form: Form
    #: Conservative score against that of an evaluation's length ago.
    delta: float | None
    #: ``None`` for a retired model.
    badge: Badge | None
    #: Rules that hold up the next badge.
    waiting: tuple[Rule, ...]
    #: In which scopes its place above the next row is proven.
    proven: tuple[str, ...]
    #: Secondary ratings, where they were given.
    legacy_elo: float | None
    bradley_terry: float | None

    @property
    def votes(self) -> int:
        """Votes of any kind."""
        return self.record.votes

    @property
    def both_bad(self) -> int:
        return self.record.both_bad


@dataclass(frozen=True, slots=True)
class ArenaBoard:
    """Ranked rows, retired models after them, and the rules that the status rests on."""

    rows: tuple[ArenaRow, ...]
    #: ``legacy-elo`` in the phases that keep the old ranking.
    order: str
    phase: Phase
    status: Status
    #: Votes at which the board became official.
    official_since: int | None
    #: The publication rules now; the status rests on several evaluations in a row.
    rules: tuple[Rule, ...]
    votes: int
    #: Share of the contender band's prompts at its own, higher floor.
    band_coverage: float | None
    findings: tuple[Finding, ...]


def make_arena_board(
    standing: Standing,
    history: History,
    *,
    phase: Phase = 4,
    order: Order = "conservative",
    legacy_elo: Floats | None = None,
    bradley_terry: Floats | None = None,
    proven: Mapping[str, Bools] | None = None,
    findings: tuple[Finding, ...] = (),
) -> ArenaBoard:
    """The board now. Ratings by other methods are passed in by the codes of the standing.

    Phases 1 and 2 rank by legacy Elo; 3 and 4 by ``order``. ``proven`` holds, for each scope, a
    matrix that says which model (row) is proven above which (column).
    """
    others = (legacy_elo, bradley_terry)
    shown, score = _ranking(standing, phase, order, others)
    rows = _rows(standing, history, score, proven or {}, others)
    return ArenaBoard(
        rows=rows,
        order=shown,
        phase=phase,
        status="official" if history.official else "calibrating",
        official_since=history.official_since(),
        rules=publication_rules(standing),
        votes=standing.votes,
        band_coverage=band_top_coverage(standing),
        findings=(*quality_findings(standing), *findings),
    )


def _rows(
    standing: Standing, history: History, score: Floats, proven: Mapping[str, Bools], others: Others
) -> tuple[ArenaRow, ...]:
    """Ranked models, then retired ones. Badges and neighbours are those by conservative score."""
    steady = consistencies(standing)
    ranked = _ranked(standing.enabled, score).tolist()
    rows = [
        _row(
            standing,
            history,
            model,
            others,
            rank=rank,
            consistency=steady[model],
            proven=_proven(proven, model, ranked[rank] if rank < len(ranked) else None),
        )
        for rank, model in enumerate(ranked, 1)
    ]
    rows += [
        _row(standing, history, model, others, rank=None)
        for model in _ranked(~standing.enabled, score).tolist()
    ]
    return tuple(rows)


def _ranking(standing: Standing, phase: int, order: str, others: Others) -> tuple[str, Floats]:
    """The name of the order that this phase shows, and its scores."""
    legacy_elo, bradley_terry = others
    if phase not in (1, 2, 3, 4):
        raise BadOption(f"phase is {phase}; expected 1, 2, 3 or 4")
    if order not in ("conservative", "bradley-terry"):
        raise BadOption(f"order is {order!r}; expected conservative or bradley-terry")
    for name, given in (("legacy_elo", legacy_elo), ("bradley_terry", bradley_terry)):
        if given is not None and given.shape != (len(standing.models),):
            raise BadOption(f"{name} has shape {given.shape}; expected one rating for each model")
    if phase <= 2:
        if legacy_elo is None:
            raise BadOption(f"phase {phase} ranks by legacy Elo; pass legacy_elo")
        return "legacy-elo", legacy_elo
    if order == "bradley-terry":
        if bradley_terry is None:
            raise BadOption("the order is bradley-terry; pass bradley_terry")
        return order, bradley_terry
    return order, standing.strengths.conservative()


def _ranked(among: Bools, score: Floats) -> Ints:
    """Codes of these models, highest score first, those without one last; codes break ties."""
    codes = np.flatnonzero(among)
    return codes[np.argsort(np.where(np.isnan(score), np.inf, -score)[codes], kind="stable")]


def _proven(proven: Mapping[str, Bools], model: int, below: int | None) -> tuple[str, ...]:
    return () if below is None else tuple(scope for scope, above in proven.items() if above[model, below])


def _row(
    standing: Standing,
    history: History,
    model: int,
    others: Others,
    *,
    rank: int | None,
    consistency: float | None = None,
    proven: tuple[str, ...] = (),
) -> ArenaRow:
    rating, rd = float(standing.strengths.rating[model]), float(standing.strengths.rd[model])
    card = None if rank is None else badge_of(standing, model)
    legacy_elo, bradley_terry = (None if given is None else number(given[model]) for given in others)
    return ArenaRow(
        rank=rank,
        model=standing.models[model],
        conservative=rating - 2.0 * rd,
        rating=rating,
        rd=rd,
        confidence=confidence(rd),
        coverage=coverage_of(standing, model),
        pair_coverage=pair_coverage_score(standing, model),
        consistency=consistency,
        spread=spread(standing, model),
        average_score=average_score(standing, model),
        record=record_of(standing, model),
        quality=model_quality(standing, model),
        form=recent_form(standing, model),
        delta=history.recent_delta(model, over=standing.policy.evaluated_every),
        badge=None if card is None else card.badge,
        waiting=() if card is None else card.waiting,
        proven=proven,
        legacy_elo=legacy_elo,
        bradley_terry=bradley_terry,
    )
