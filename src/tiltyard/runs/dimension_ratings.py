"""Rates the battles of a tournament: one group per dimension, and optionally one for all together, or a placed model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from tiltyard.core.battles import Battle, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY
from tiltyard.core.board import RatedGroup, Row, make_board
from tiltyard.core.board.adaptive_matches import settled_pairs
from tiltyard.core.board.board_rows import PlacedModel, placed_board
from tiltyard.core.judging.reconciliation import panel_name
from tiltyard.core.ratings import BradleyTerry, Finding
from tiltyard.core.ratings.judge_placement import place_by_judge
from tiltyard.core.ratings.sentences import first_of
from tiltyard.files import BattleSource
from tiltyard.files.battle_tables import count_groups
from tiltyard.report.run_documents import ChoiceDocument
from tiltyard.runs.battle_rating import RateSettings, rate_table, with_checks
from tiltyard.runs.tournament_manifest import OVERALL, TournamentManifest

_JUDGE = "llm-judge"


def rate_dimensions(battles: BattleSource, manifest: TournamentManifest) -> list[RatedGroup]:
    """Rate every dimension that has battles: the run's own in their order, those of anchors, then overall.

    The overall group contains the battles of the weighted dimensions, each battle's weight
    multiplied by its dimension's, and the human battles. A prompt is one cluster in all of them.
    For a placement, it contains the human ratings, with the new model placed among them.
    """
    if "dimension" not in battles.columns:
        return []
    settings, adaptive = manifest.settings(), manifest.design.adaptive
    counted = count_groups([battles], ["dimension"], levels=settings.levels)["dimension"]
    tables = {name: _without_voters(table) for name, table in counted.items()}
    placed = rate_placement(tables, battles, manifest)
    pooled = _pooled(tables, manifest.overall)
    if pooled is not None:
        tables[OVERALL] = pooled
    own = [name for name in manifest.dimensions if name in tables]
    others = [name for name in tables if name not in own and name != OVERALL]
    last = [OVERALL] if OVERALL in tables and OVERALL not in own else []
    groups = [
        placed
        if placed is not None and name == OVERALL
        else rate_table(tables[name], settings, name=name, checks=True)
        for name in (*own, *others, *last)
    ]
    return [_with_design(one) if one.name in own else one for one in groups] if adaptive else groups


def _with_design(rated: RatedGroup) -> RatedGroup:
    """The same with what an adaptive design settled, which takes the place of what a test says of its pairs."""
    models = len(rated.ratings.models)
    settled = int(settled_pairs(rated.ratings, models).sum())
    said = Finding("adaptive-design", {"pairs_settled": settled, "pairs": math.comb(models, 2)})
    kept = (one for one in rated.board.findings if one.name != "adaptive-pairs")
    return replace(rated, board=replace(rated.board, findings=(said, *kept)))


def _without_voters(table: Table) -> Table:
    """Remove voters from a table of judged battles; the file has a voter column only for anchors."""
    if any(run.voter is not None and (run.voter != MISSING_KEY).any() for run in table.scan()):
        return table
    return replace(table, keyed=table.keyed - {"voter"})


def _pooled(tables: Mapping[str, Table], weights: Mapping[str, float]) -> Table | None:
    """One table of all weighted dimensions and of the battles that belong to no single dimension."""
    parts = [_weighted(tables[name], weight) for name, weight in weights.items() if name in tables and weight]
    if weights and OVERALL in tables and OVERALL not in weights:
        parts.append(tables[OVERALL])
    if not parts:
        return None
    pooled = parts[0]
    for part in parts[1:]:
        pooled = pooled.merge(part)
    # The weights were set explicitly, so pooling dimensions needs no finding.
    return replace(pooled, tags={tag: names for tag, names in pooled.tags.items() if tag != "dimension"})


def _weighted(table: Table, weight: float) -> Table:
    if weight == 1.0:
        return table
    log = table.log()
    own = np.ones(len(log)) if log.weight is None else log.weight
    return replace(Table.from_codes(table.models, replace(log, weight=own * weight)), tags=table.tags)


def scoring_choices(rated: RatedGroup, settings: RateSettings) -> list[ChoiceDocument]:
    """The same battles rated under each choice of what leans, ties and inconsistent results count; first as rated."""
    method = settings.method
    assert isinstance(method, BradleyTerry)
    others = {
        "leans count as wins": replace(method, lean=1.0),
        "leans count as ties": replace(method, lean=0.5),
        "inconsistent left out": replace(method, inconsistent=None),
        "ties and inconsistent left out": replace(method, ties="drop"),
    }
    choices = (_choice(name, other, _rows(rated, other)) for name, other in others.items())
    return [_choice("as rated", method, rated.board.rows), *choices]


def _choice(name: str, method: BradleyTerry, rows: Iterable[Row]) -> ChoiceDocument:
    return {
        "name": name,
        "ties": method.ties,
        "lean": method.lean,
        "inconsistent": method.inconsistent,
        "ratings": [
            {
                "model": row.model,
                "rating": row.rating,
                "ci_low": row.low,
                "ci_high": row.high,
                "rank": row.rank,
                "group": row.group,
            }
            for row in rows
        ],
    }


def _rows(rated: RatedGroup, method: BradleyTerry) -> tuple[Row, ...]:
    if rated.placed is not None:
        # The rows of a placement with another method, without rank ranges.
        placed = rated.placed
        ratings = method(placed.human)
        found = place_by_judge(ratings, placed.judged, placed.placement.model)
        return placed_board(make_board(ratings, None), replace(placed, placement=found)).rows
    return make_board(method(rated.table), None).rows


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
    rated = rate_table(human, settings, name=OVERALL, checks=True)
    pooled = human.merge(judged)
    pooled = replace(pooled, tags={tag: names for tag, names in pooled.tags.items() if tag != "dimension"})
    if any(row.model == model and row.rating is not None for row in rated.board.rows):
        found = Finding("already-rated", {"model": model})
        board = replace(rated.board, findings=(*rated.board.findings, found))
        return with_checks(replace(rated, table=pooled, board=board))
    placed = PlacedModel(place_by_judge(rated.ratings, judged, model), human, judged)
    board = placed_board(rated.board, placed)
    earlier = {name for part in parts for name in part.models}.difference(human.models, [model])
    if earlier:
        found = Finding("judged-earlier", first_of("models", sorted(earlier)))
        board = replace(board, findings=(*board.findings, found))
    return with_checks(replace(rated, table=pooled, board=board, placed=placed))


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

    levels = manifest.settings().levels
    return Table.from_battles(chosen(human=True), levels), Table.from_battles(chosen(human=False), levels)
