"""What the page of a model shows of a portrait: sorted, cut to what is asked for, ready to be written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from tiltyard.arena.boards.model_profiles import ModelProfile, Opponent, PromptRecord
from tiltyard.arena.boards.response_history import ResponseHistory
from tiltyard.report.board_charts import Spec, charts_available
from tiltyard.report.chart_theme import ChartTheme, Translate
from tiltyard.report.model_charts import (
    OpponentScore,
    both_bad_chart,
    confidence_chart,
    coverage_chart,
    expected_chart,
)
from tiltyard.web.pages import paths

__all__ = [
    "HeatmapRow",
    "ModelPageQuery",
    "ModelView",
    "RankNeighbour",
    "Sort",
    "SourceWord",
    "TruncatedRows",
    "make_model_view",
    "model_chart",
    "response_state",
]

SourceWord = Literal["human", "llm-judge"]
Sort = Literal["prompt", "category", "votes", "score"]
Order = Literal["asc", "desc"]

#: Rows of a table before "show all"; of responses, which say least.
_FIRST_ROWS = 25
_FIRST_RESPONSE_ROWS = 10
#: Evaluations that stand in the table beside the chart.
_EVALUATION_ROWS = 40


@dataclass(frozen=True, slots=True)
class ModelPageQuery:
    """What an address asks of the page."""

    source: SourceWord = "human"
    sort: Sort = "votes"
    order: Order = "desc"
    whole: bool = False

    def query(self) -> dict[str, str | None]:
        """The same as a query, what is usual left out."""
        return {
            "source": None if self.source == "human" else self.source,
            "sort": None if self.sort == "votes" else self.sort,
            "order": None if self.order == "desc" else self.order,
            "rows": "all" if self.whole else None,
        }

    def by(self, source: SourceWord) -> ModelPageQuery:
        """The same of other votes."""
        return replace(self, source=source)

    def entire(self) -> ModelPageQuery:
        """The same with every row of every table."""
        return replace(self, whole=True)

    def sorted_by(self, column: Sort) -> ModelPageQuery:
        """Sorted by that column; by the same once more, the other way round."""
        first: Order = "desc" if column in ("votes", "score") else "asc"
        other: Order = "asc" if self.order == "desc" else "desc"
        return replace(self, sort=column, order=other if column == self.sort else first)


@dataclass(frozen=True, slots=True)
class TruncatedRows:
    """Some rows of a table, and how many there are in all."""

    rows: tuple[Any, ...]
    total: int

    @classmethod
    def of(cls, rows: tuple[Any, ...], most: int | None) -> TruncatedRows:
        return cls(rows[:most], len(rows))

    @property
    def more(self) -> int:
        return self.total - len(self.rows)


@dataclass(frozen=True, slots=True)
class RankNeighbour:
    """A neighbour in rank, with the record against it."""

    name: str
    above: bool
    challenge: Any


@dataclass(frozen=True, slots=True)
class HeatmapRow:
    """One prompt of the coverage heatmap: its deficit, and each opponent's cell as deficit and votes."""

    prompt: str
    deficit: float
    cells: tuple[tuple[float | None, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ModelView:
    """The page, all but its words."""

    portrait: ModelProfile
    asked: ModelPageQuery
    opponents: TruncatedRows
    prompts: TruncatedRows
    responses: TruncatedRows
    rivals: tuple[RankNeighbour, ...]
    heat_opponents: tuple[str, ...]
    heat: tuple[HeatmapRow, ...]
    history: tuple[Any, ...]
    #: Charts that have something to show.
    charts: frozenset[str]

    @property
    def lacking(self) -> bool:
        """Whether any cell of the heatmap lacks votes."""
        return any(deficit for line in self.heat for deficit, _ in line.cells)

    def path(self, arena: str, asked: ModelPageQuery) -> str:
        """The same page, asked otherwise."""
        return paths.model(arena, self.portrait.name, **asked.query())

    def chart(self, arena: str, name: str, ending: str, theme: str | None) -> str:
        """Where a chart of this page is."""
        query = {
            "model": self.portrait.name,
            "source": None if self.asked.source == "human" else self.asked.source,
            "theme": theme,
            "board": self.portrait.snapshot.sha256[:12],
        }
        return paths.asked(f"{paths.board(arena)}/model-charts/{name}.{ending}", query)


def make_model_view(portrait: ModelProfile, asked: ModelPageQuery) -> ModelView:
    """A portrait as the page shows it."""
    heat, most = portrait.heatmap, None if asked.whole else _FIRST_ROWS
    return ModelView(
        portrait=portrait,
        asked=asked,
        opponents=TruncatedRows.of(tuple(sorted(portrait.opponents, key=_by_rank)), most),
        prompts=TruncatedRows.of(_sorted(portrait.prompts, asked), most),
        responses=TruncatedRows.of(portrait.responses, None if asked.whole else _FIRST_RESPONSE_ROWS),
        rivals=tuple(
            RankNeighbour(portrait.models[challenge.other], above, challenge)
            for challenge, above in zip(portrait.challenges, (True, False), strict=True)
            if challenge is not None
        ),
        heat_opponents=() if heat is None else tuple(portrait.models[k] for k in heat.opponents),
        heat=()
        if heat is None
        else tuple(
            HeatmapRow(portrait.prompt_names[prompt], lacking, tuple(zip(deficits, votes, strict=True)))
            for prompt, lacking, deficits, votes in zip(
                heat.prompts, heat.prompt_deficit, heat.deficit, heat.votes, strict=True
            )
        ),
        history=tuple(reversed(portrait.history))[: None if asked.whole else _EVALUATION_ROWS],
        charts=_charts(portrait),
    )


def model_chart(portrait: ModelProfile, name: str, look: ChartTheme, say: Translate = str) -> Spec | None:
    """The spec of a chart that this portrait has something to show in, its words said by ``say``."""
    if name not in _charts(portrait):
        return None
    if name == "confidence":
        return confidence_chart(portrait.history, look, say)
    if name == "expected":
        return expected_chart([_against(one) for one in portrait.opponents if one.enabled], look, say)
    if name == "both-bad":
        assert portrait.row is not None
        assert portrait.row.quality is not None
        return both_bad_chart(portrait.row.quality.trend, portrait.policy.both_bad_bar, look, say)
    assert portrait.heatmap is not None
    return coverage_chart(portrait.heatmap, portrait.models, portrait.prompt_names, look, say)


def _charts(portrait: ModelProfile) -> frozenset[str]:
    if not charts_available() or portrait.row is None or not portrait.shown_policy:
        return frozenset()
    heat, quality = portrait.heatmap, portrait.row.quality
    there = {
        "confidence": len(portrait.history) > 1,
        "expected": any(one.enabled for one in portrait.opponents),
        "both-bad": quality is not None and len(quality.trend) > 1,
        "coverage": heat is not None and any(any(line) for line in heat.deficit),
    }
    return frozenset(name for name, shown in there.items() if shown)


def _against(opponent: Opponent) -> OpponentScore:
    met = opponent.met
    return OpponentScore(opponent.name, met.expected, met.score, met.record.votes)


def _by_rank(opponent: Opponent) -> tuple[bool, int, int]:
    unranked = opponent.rank is None
    return unranked, opponent.rank or 0, opponent.met.model


_KEYS: dict[Sort, Callable[[PromptRecord], Any]] = {
    "prompt": lambda one: one.name.casefold(),
    "category": lambda one: (one.category or "").casefold(),
    "votes": lambda one: one.record.votes,
    "score": lambda one: one.score,
}


def _sorted(prompts: tuple[PromptRecord, ...], asked: ModelPageQuery) -> tuple[PromptRecord, ...]:
    """In the order asked for, what has no value last; equals stay by votes."""
    key, backward = _KEYS[asked.sort], asked.order == "desc"
    known = [one for one in prompts if key(one) not in (None, "")]
    unknown = [one for one in prompts if key(one) in (None, "")]
    return (*sorted(known, key=key, reverse=backward), *unknown)


def response_state(response: ResponseHistory) -> str:
    """``shown``, ``withdrawn`` or ``replaced``."""
    if response.withdrawn_at is None:
        return "shown"
    return "withdrawn" if response.replaced_at is None else "replaced"
