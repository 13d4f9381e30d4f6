"""Rates a placement: human battles rate the models that people know, a judge's battles place the new one among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tiltyard.core.battles import Battle, Table
from tiltyard.core.board import RatedGroup, Row, make_board
from tiltyard.core.board.board_rows import PlacedModel, placed_board
from tiltyard.core.judging.reconciliation import panel_name
from tiltyard.core.ratings import BradleyTerry, Finding
from tiltyard.core.ratings.judge_placement import place_by_judge
from tiltyard.files import BattleSource
from tiltyard.runs.battle_rating import rate_table, with_checks
from tiltyard.runs.judged_run import OVERALL
from tiltyard.runs.tournament_manifest import TournamentManifest

_JUDGE = "llm-judge"


def rate_placement(
    tables: Mapping[str, Table], battles: BattleSource, manifest: TournamentManifest
) -> RatedGroup | None:
    """The overall group of a placement; ``None`` if no battle is human, or none is judged.

    ``tables`` are by dimension. The human ratings, intervals and rank ranges are those that people's battles alone
    give; a model that they already rate is not moved.
    """
    model = manifest.model
    parts = [tables[name] for name in (*manifest.overall, OVERALL) if name in tables]
    if model is None or not manifest.anchors or len(parts) < 2:
        return None
    human, judged = parts[-1], parts[0]
    if _sources(human) & {_JUDGE} or _sources(judged) - {_JUDGE}:
        human, judged = _by_source(battles, manifest)
    if not human.n_battles or model not in judged.models:
        return None
    settings = manifest.settings()
    rated = rate_table(human, settings, name=OVERALL)
    pooled = human.merge(judged)
    pooled = replace(pooled, tags={tag: names for tag, names in pooled.tags.items() if tag != "dimension"})
    if _is_rated(rated, model):
        found = Finding("already-rated", {"model": model})
        board = replace(rated.board, findings=(*rated.board.findings, found))
        return with_checks(replace(rated, table=pooled, board=board))
    placed = PlacedModel(place_by_judge(rated.ratings, judged, model), human, judged)
    board = placed_board(rated.board, placed)
    return with_checks(replace(rated, table=pooled, board=board, placed=placed))


def placement_rows(placed: PlacedModel, method: BradleyTerry) -> tuple[Row, ...]:
    """The rows of a placement with another method, without rank ranges."""
    ratings = method(placed.human)
    found = place_by_judge(ratings, placed.judged, placed.placement.model)
    return placed_board(make_board(ratings, None), replace(placed, placement=found)).rows


def _is_rated(rated: RatedGroup, model: str) -> bool:
    return any(row.model == model and row.rating is not None for row in rated.board.rows)


def _sources(table: Table) -> frozenset[str]:
    return table.tags.get("source", frozenset())


def _by_source(battles: BattleSource, manifest: TournamentManifest) -> tuple[Table, Table]:
    """Human battles, and those of this run's judge, wherever they come from; other judges' battles are left out."""
    dimensions = {*manifest.overall, OVERALL}
    judge = panel_name(manifest.judges)

    def chosen(*, human: bool) -> Iterator[Battle]:
        for battle in battles.battles():
            judged = battle.source == _JUDGE
            if battle.dimension in dimensions and judged != human and (human or battle.judge_model == judge):
                yield battle

    return Table.from_battles(chosen(human=True)), Table.from_battles(chosen(human=False))
