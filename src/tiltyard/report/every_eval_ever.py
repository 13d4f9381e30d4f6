"""Boards in the schema of Every Eval Ever (https://github.com/evaleval/every_eval_ever): a document for each model."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard._version import __version__
from tiltyard.core.board import RatedGroup, Row


def evaluation_logs(groups: Sequence[RatedGroup], arena: str | None, now: int) -> list[dict[str, object]]:
    """The documents; ``now`` is in seconds. What nobody said of a model or of its evaluator is ``unknown``."""
    name = arena or "pairwise comparison"
    results: dict[str, list[object]] = {}
    for rated in groups:
        for row in rated.board.rows:
            if row.rating is not None:
                results.setdefault(row.model, []).append(_result(row, rated, name))
    source = {"source_type": "evaluation_run", "source_organization_name": "unknown"}
    unknown = {"deployment_type": "unknown", "model_availability": "unknown"}
    return [
        {
            "schema_version": "0.3.0",
            "evaluation_id": f"{name}/{model}/{now}",
            "retrieved_timestamp": str(now),
            "source_metadata": source | {"evaluator_relationship": "other"},
            "eval_library": {"name": "tiltyard", "version": __version__},
            "model_info": {"name": model, "id": model, "additional_details": unknown},
            "evaluation_results": found,
        }
        for model, found in results.items()
    ]


def _result(row: Row, rated: RatedGroup, name: str) -> dict[str, object]:
    board = rated.board
    interval = {"lower": row.low, "upper": row.high, "confidence_level": board.level, "method": board.scope}
    metric = {"metric_id": f"tiltyard.{board.method.name}", "metric_kind": "elo", "metric_unit": "points"}
    ranks = {} if row.rank_low is None else {"ranks": f"{row.rank_low}–{row.rank_high}"}
    limits = {} if row.low is None else {"uncertainty": {"confidence_interval": interval}}
    return {
        "evaluation_name": name if rated.name is None else f"{name}: {rated.name}",
        "source_data": {"dataset_name": name, "source_type": "other"},
        "metric_config": metric | {"lower_is_better": False},
        "score_details": {"score": row.rating, "details": {"battles": str(row.battles), **ranks}, **limits},
    }
