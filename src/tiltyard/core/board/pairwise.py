"""Every two models of a board: how their battles ended, and what the ratings expect."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from tiltyard.core.board.board_rows import RatedGroup
from tiltyard.core.board.win_rates import pair_rows
from tiltyard.core.ratings.comparison import DifferenceIntervals, expected_score


def pairwise_columns(rated: RatedGroup) -> dict[str, list[Any]]:
    """Every two models that can be compared, the higher rated first, as columns.

    ``battles`` to ``both_bad`` count their direct battles, of which there may be none. ``win_rate`` is the score of
    A against B that their ratings expect, from all battles; its interval is that of one pair alone, and ``settled``
    says whether their order holds with those of all pairs at once.
    """
    ratings, ranks = rated.ratings, rated.ranks
    models, method = ratings.models, ratings.method
    known = ratings.uncertainty is not None and ratings.interval is not None
    intervals = DifferenceIntervals(rated.table, ratings) if known else None
    scale = getattr(method, "scale", None) or getattr(method, "spread", None)
    tie = ratings.extras.get("tie_parameter")
    withheld = np.ones(len(models), bool) if ratings.interval is None else np.isnan(ratings.interval.low)
    played = {(row.model_a, row.model_b): row for row in pair_rows(rated.table, method)}
    rows = []
    for i, j in combinations(ratings.order().tolist(), 2):
        if (
            ratings.group[i] != ratings.group[j]
            or ratings.group[i] < 0
            or np.isnan(ratings.rating[[i, j]]).any()
        ):
            continue
        a, b = models[i], models[j]
        row, turned = played.get((min(a, b), max(a, b))), a > b
        wins = (0, 0) if row is None else (row.a_wins, row.b_wins)
        ends = None if intervals is None or withheld[[i, j]].any() else intervals.ends(i, j)
        differences = (float(ratings.rating[i] - ratings.rating[j]), *(ends or (None, None)))
        rows.append(
            {
                "model_a": a,
                "model_b": b,
                "battles": 0 if row is None else row.battles,
                "a_wins": wins[turned],
                "b_wins": wins[not turned],
                "ties": 0 if row is None else row.ties + row.inconsistent,
                "both_bad": 0 if row is None else row.both_bad,
                **{
                    name: None if scale is None or value is None else expected_score(value, scale, tie)
                    for name, value in zip(
                        ("win_rate", "win_rate_low", "win_rate_high"), differences, strict=True
                    )
                },
                "settled": None if ranks is None else bool(ranks.above[i, j] or ranks.above[j, i]),
            }
        )
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
