"""The rating documents of a run folder as values: written by a run, and recomputed by `verify`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiltyard.core.board import RatedGroup, Row, pair_rows
from tiltyard.core.board.board_rows import parameters_of
from tiltyard.core.ratings import Ratings
from tiltyard.runs.battle_rating import RateSettings

__all__ = ["BOOTSTRAP_COLUMNS", "bootstrap_columns", "ratings_document", "winrates_csv"]

BOOTSTRAP_COLUMNS = ("group", "replicate", "model", "rating")


def ratings_document(
    groups: Sequence[RatedGroup], settings: RateSettings, evaluated: frozenset[str]
) -> dict[str, object]:
    """`elo_ratings.json`: run metadata and the rows of every group, highest first."""
    judges = sorted({judge for rated in groups for judge in rated.table.tags.get("judge_model", ())})
    document: dict[str, object] = {
        "schema": 1,
        "arena": settings.arena,
        "model": settings.model,
        "judge_model": judges[0] if len(judges) == 1 else None,
        "judge_models": judges,
        "n_bootstraps": settings.n_bootstraps,
        "seed": getattr(settings.method, "seed", None),
        "method": settings.method.name,
        "parameters": parameters_of(settings.method),
        "by": settings.by,
        "style": list(settings.style),
    }
    if settings.by is None:
        return document | _group(groups[0], evaluated)
    return document | {"groups": {rated.name: _group(rated, evaluated) for rated in groups}}


def _group(rated: RatedGroup, evaluated: frozenset[str]) -> dict[str, object]:
    board, ratings = rated.board, rated.ratings
    document: dict[str, object] = {
        "n_battles": sum(row.battles for row in board.rows) // 2,
        "n_both_bad": sum(row.both_bad for row in board.rows) // 2,
        "interval": None
        if ratings.interval is None
        else {
            "level": ratings.interval.level,
            "made_by": ratings.interval.made_by,
            "clusters": ratings.interval.clusters,
            "n_clusters": ratings.interval.n_clusters,
            "scope": ratings.interval.scope,
            "n_voters": ratings.interval.n_voters,
            "largest_share": ratings.interval.largest_share,
        },
        "ratings": [_entry(row, rated, evaluated) for row in board.rows],
        "findings": [finding.to_dict() for finding in board.findings],
        "kernel": ratings.extras.get("kernel"),
    }
    if "tie_parameter" in ratings.extras:
        document["tie_parameter"] = ratings.extras["tie_parameter"]
    if "style" in ratings.extras:
        errors = ratings.extras.get("style_se", {})
        document["style_effects"] = {
            name: {"estimate": estimate, "se": errors.get(name)}
            for name, estimate in ratings.extras["style"].items()
        }
    if rated.flip is not None:
        document["votes_to_flip"] = {
            "first": rated.flip.first,
            "rival": rated.flip.rival,
            "votes": rated.flip.votes,
            "of": rated.flip.of,
        }
    if rated.fit is not None:
        document["dispersion"] = _finite(rated.fit.dispersion)
    return document


def _entry(row: Row, rated: RatedGroup, evaluated: frozenset[str]) -> dict[str, object]:
    entry: dict[str, object] = {
        "model": row.model,
        "rating": row.rating,
        "ci_low": row.low,
        "ci_high": row.high,
        "n_battles": row.battles,
        "source": "evaluated" if row.model in evaluated else "human",
        "group": row.group,
        "rank": row.rank,
        "rank_low": row.rank_low,
        "rank_high": row.rank_high,
        "tier": row.tier,
        "wins": row.wins,
        "losses": row.losses,
        "ties": row.ties,
        "both_bad": row.both_bad,
    }
    if row.rd is not None:
        entry["rd"] = row.rd
    k = rated.ratings.models.index(row.model)
    if "order_noise" in rated.ratings.extras:
        entry["order_noise"] = _finite(float(rated.ratings.extras["order_noise"][k]))
    if rated.bootstrap is not None and rated.bootstrap.interval is not None:
        entry["bootstrap_low"] = _finite(float(rated.bootstrap.interval.low[k]))
        entry["bootstrap_high"] = _finite(float(rated.bootstrap.interval.high[k]))
    return entry


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def bootstrap_columns(groups: Sequence[RatedGroup]) -> dict[str, list[Any]]:
    """`bootstrap_ratings.parquet`: one row per replicate and rated model."""
    columns: dict[str, list[Any]] = {name: [] for name in BOOTSTRAP_COLUMNS}
    for rated in groups:
        replicates = _replicates(rated.bootstrap)
        for k, row in enumerate(replicates):
            for model, rating in zip(rated.ratings.models, row.tolist(), strict=True):
                if rating == rating:
                    columns["group"].append(rated.name)
                    columns["replicate"].append(k)
                    columns["model"].append(model)
                    columns["rating"].append(rating)
    return columns


def _replicates(bootstrap: Ratings | None) -> np.ndarray[Any, Any]:
    return np.empty((0, 0)) if bootstrap is None else np.asarray(bootstrap.extras["replicates"])


def winrates_csv(groups: Sequence[RatedGroup]) -> str:
    """`pairwise_winrates.csv`: every pair that met, with ties and inconsistent results counted separately."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ("a_wins", "b_wins", "ties", "inconsistent", "both_bad")
    writer.writerow(["group", "model_a", "model_b", *names, "a_score"])
    for rated in groups:
        for row in pair_rows(rated.table):
            score = "" if row.a_score is None else repr(row.a_score)
            writer.writerow(
                [rated.name or "", row.model_a, row.model_b, *(getattr(row, name) for name in names), score]
            )
    return text.getvalue()
