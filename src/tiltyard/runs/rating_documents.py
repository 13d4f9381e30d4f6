"""The rating documents of a run folder as values: written by a run, and recomputed by `verify`."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tiltyard.core.board import RatedGroup, Row, pair_rows
from tiltyard.core.board.board_rows import SHRUNK, parameters_of
from tiltyard.core.ratings import Ratings
from tiltyard.core.ratings.judge_placement import JudgePlacement
from tiltyard.core.ratings.variance import these_prompts_interval
from tiltyard.report.board_formats import boards_csv, boards_latex, boards_markdown
from tiltyard.report.board_page import interval_chart
from tiltyard.report.escapes import csv_text
from tiltyard.runs.battle_rating import RateSettings

#: The board for spreadsheets, and for documents.
BOARD_CSV = "board.csv"
BOARD_TEXTS = ("board.md", "board.tex")
#: The folder of the figures.
FIGURES = "figures"
BOOTSTRAP_COLUMNS = ("group", "replicate", "model", "rating")

_NAME_CHARACTERS = 60


def ratings_document(
    groups: Sequence[RatedGroup], settings: RateSettings, evaluated: frozenset[str] | None
) -> dict[str, object]:
    """`elo_ratings.json`: run metadata and the rows of every group, highest first.

    ``evaluated`` are the models under test; ``None`` leaves out which they are.
    """
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
        "by": list(settings.by) if isinstance(settings.by, tuple) else settings.by,
        "style": list(settings.style),
        "where": settings.where,
    }
    if settings.by is None:
        return document | (_group(groups[0], evaluated) if groups else {"ratings": []})
    return document | {"groups": {rated.name: _group(rated, evaluated) for rated in groups}}


def ratings_json(
    groups: Sequence[RatedGroup],
    settings: RateSettings,
    evaluated: frozenset[str] | None = None,
    *,
    top: int | None = None,
) -> str:
    """The document as text; with ``top``, only the first models of each group, and how many are left out."""
    document = ratings_document(groups, settings, evaluated)
    if top is not None:
        found = document.get("groups")
        boards: list[dict[str, Any]] = list(found.values()) if isinstance(found, dict) else [document]
        for board in boards:
            ratings = board["ratings"]
            board["ratings"], board["models_left_out"] = ratings[:top], len(ratings[top:])
            if "baseline" in board:
                board["baseline"]["rows"] = board["baseline"]["rows"][:top]
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


def _group(rated: RatedGroup, evaluated: frozenset[str] | None) -> dict[str, object]:
    board, ratings = rated.board, rated.ratings
    rows = [*board.rows, *_own_rows(rated)]
    document: dict[str, object] = {
        "n_battles": sum(row.battles for row in rows) // 2,
        "n_both_bad": sum(row.both_bad for row in rows) // 2,
        "interval": None
        if ratings.interval is None
        else {
            "level": ratings.interval.level,
            "made_by": ratings.interval.made_by,
            "clusters": ratings.interval.clusters,
            "n_clusters": ratings.interval.n_clusters,
            "scope": ratings.interval.scope,
            "n_voters": ratings.interval.n_voters,
            "largest_shares": dict(ratings.interval.largest_shares),
        },
        "ratings": [_entry(row, rated, evaluated) for row in board.rows],
        "findings": [finding.to_dict() for finding in board.findings],
        "kernel": ratings.extras.get("kernel"),
    }
    if board.baseline is not None:
        document["baseline"] = asdict(board.baseline)
    if rated.placed is not None:
        document["placement"] = _placement(rated.placed.placement, ratings)
    if "tie_parameter" in ratings.extras:
        document["tie_parameter"] = ratings.extras["tie_parameter"]
    if "style" in ratings.extras:
        errors = ratings.extras.get("style_se", {})
        document["style_effects"] = {
            name: {"estimate": estimate, "se": errors.get(name)}
            for name, estimate in ratings.extras["style"].items()
        }
    for flip in rated.flips:
        counted = {"first": flip.first, "rival": flip.rival, f"{flip.unit}s": flip.count, "of": flip.of}
        document[f"{flip.unit}s_to_flip"] = counted
    if rated.fit is not None:
        document["dispersion"] = finite(rated.fit.dispersion)
    return document


def _own_rows(rated: RatedGroup) -> list[Row]:
    """The placed model's row: its opponents' rows do not count its battles, so its own counts twice."""
    placed = rated.placed
    return [] if placed is None else [row for row in rated.board.rows if row.model == placed.placement.model]


def _placement(found: JudgePlacement, ratings: Ratings) -> dict[str, object]:
    ends = np.stack([found.difference, found.difference_low, found.difference_high]).tolist()
    differences = zip(ratings.models, *ends, strict=False)
    return {
        "model": found.model,
        "label": found.label if found.group >= 0 else None,
        "bias_sd": found.bias_sd,
        "upper_bias_sd": found.upper_bias_sd,
        "slope": found.slope,
        "slope_low": found.slope_low,
        "slope_high": found.slope_high,
        "n_opponents": found.opponents,
        "n_battles": found.battles,
        "differences": [
            {"model": model, "difference": difference, "low": finite(low), "high": finite(high)}
            for model, difference, low, high in differences
            if np.isfinite(difference)
        ],
    }


def _entry(row: Row, rated: RatedGroup, evaluated: frozenset[str] | None) -> dict[str, object]:
    entry: dict[str, object] = {
        "model": row.model,
        "rating": row.rating,
        "ci_low": row.low,
        "ci_high": row.high,
        "n_battles": row.battles,
        **({} if evaluated is None else {"source": "evaluated" if row.model in evaluated else "human"}),
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
    if row.placed is not None:
        entry["placed"] = row.placed
    if row.shrunk is not None:
        entry |= {name: getattr(row, name) for name in SHRUNK}
    if row.model not in rated.ratings.models:
        return entry
    k = rated.ratings.models.index(row.model)
    if "estimate" in rated.ratings.extras:
        entry["estimate"] = finite(float(rated.ratings.extras["estimate"][k]))
    if "order_noise" in rated.ratings.extras:
        entry["order_noise"] = finite(float(rated.ratings.extras["order_noise"][k]))
    these = these_prompts_interval(rated.ratings)
    if these is not None:
        entry["these_prompts_low"], entry["these_prompts_high"] = (finite(float(end[k])) for end in these)
    if rated.bootstrap is not None and rated.bootstrap.interval is not None:
        entry["bootstrap_low"] = finite(float(rated.bootstrap.interval.low[k]))
        entry["bootstrap_high"] = finite(float(rated.bootstrap.interval.high[k]))
    return entry


def finite(value: float) -> float | None:
    """A number for JSON, which has no infinity."""
    return float(value) if np.isfinite(value) else None


def bootstrap_columns(groups: Sequence[RatedGroup]) -> dict[str, list[Any]]:
    """`bootstrap_ratings.parquet`: one row per replicate and rated model."""
    columns: dict[str, list[Any]] = {name: [] for name in BOOTSTRAP_COLUMNS}
    for rated in groups:
        replicates = (
            np.empty((0, 0)) if rated.bootstrap is None else np.asarray(rated.bootstrap.extras["replicates"])
        )
        for k, row in enumerate(replicates):
            for model, rating in zip(rated.ratings.models, row.tolist(), strict=True):
                if rating == rating:
                    columns["group"].append(rated.name)
                    columns["replicate"].append(k)
                    columns["model"].append(model)
                    columns["rating"].append(rating)
    return columns


def winrates_csv(groups: Sequence[RatedGroup]) -> str:
    """`pairs.csv`: every pair that met, with ties and inconsistent results counted separately."""
    names = ("model_a", "model_b", "a_wins", "b_wins", "ties", "inconsistent", "both_bad", "a_score")
    pairs = ((rated.name, row) for rated in groups for row in pair_rows(rated.table, rated.ratings.method))
    rows = ([group or "", *(getattr(row, name) for name in names)] for group, row in pairs)
    return csv_text(["group", *names], rows)


def board_documents(groups: Sequence[RatedGroup]) -> dict[str, str]:
    """The boards as CSV, Markdown and LaTeX, by file name."""
    markdown, latex = BOARD_TEXTS
    return {BOARD_CSV: boards_csv(groups), markdown: boards_markdown(groups), latex: boards_latex(groups)}


def figure_documents(groups: Sequence[RatedGroup]) -> dict[str, str]:
    """The chart of each group that has one, by file name: ``figures/intervals.svg``, or one named after each group."""
    names = plain_names(["" if rated.name is None else rated.name for rated in groups], otherwise="group")
    charts = {
        "intervals" if rated.name is None else f"intervals-{name}": interval_chart(rated.board)
        for name, rated in zip(names, groups, strict=True)
    }
    return {f"{FIGURES}/{name}.svg": chart for name, chart in charts.items() if chart}


def plain_names(names: Sequence[str], *, otherwise: str, taken: Iterable[str] = ()) -> list[str]:
    """Small letters, digits and hyphens; equal ones are numbered, and ``otherwise`` stands where none is left."""
    used = set(taken)
    found = []
    for name in names:
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        base = re.sub(r"[^a-z0-9]+", "-", plain)[:_NAME_CHARACTERS].strip("-") or otherwise
        number, chosen = 1, base
        while chosen in used:
            number += 1
            chosen = f"{base}-{number}"
        used.add(chosen)
        found.append(chosen)
    return found
