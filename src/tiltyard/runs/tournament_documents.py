"""The rating documents of a tournament, as values."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tiltyard.core.battles import Kind
from tiltyard.core.board import RatedGroup
from tiltyard.core.board.win_rates import scoring_of
from tiltyard.core.ratings import Ratings
from tiltyard.report.run_documents import ChoiceDocument
from tiltyard.runs.dimension_ratings import EloRatings, scoring_choices
from tiltyard.runs.rating_documents import ratings_document
from tiltyard.runs.tournament_manifest import TournamentManifest

PAIR_COLUMNS = (
    *("dimension", "entrant_a", "entrant_b", "a_wins", "b_wins", "ties", "inconsistent"),
    *("both_bad", "a_leans", "b_leans"),
)
#: The earliest date of a zip entry. All entries have it, so that equal numbers make equal bytes.
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def group_choices(
    groups: Sequence[RatedGroup], manifest: TournamentManifest
) -> dict[str, list[ChoiceDocument]]:
    """For each group, its ratings under every scoring choice."""
    settings = manifest.settings()
    return {
        rated.name or "": [choice.to_dict() for choice in scoring_choices(rated, settings)]
        for rated in groups
    }


def tournament_ratings(
    groups: Sequence[RatedGroup],
    manifest: TournamentManifest,
    choices: Mapping[str, Sequence[ChoiceDocument]],
) -> dict[str, object]:
    """`elo_ratings.json`: as written by `rate`, plus the ratings under other scoring choices."""
    document = ratings_document(groups, manifest.settings(), frozenset(manifest.evaluated))
    return document | {"overall_weights": dict(manifest.overall), "choices": choices}


def elo_document(elos: Sequence[EloRatings], manifest: TournamentManifest) -> dict[str, object]:
    """`elo_results.json`: means over orders, order noise and intervals, for each K."""
    return {
        "schema": 1,
        "default_k": manifest.elo_method().k,
        "primary": {elo.name: _entrants(elo.primary) for elo in elos},
        "k_sensitivity": {
            elo.name: {f"{k:g}": _entrants(ratings) for k, ratings in elo.sweep.items()} for elo in elos
        },
        "n_decisive_matches": {elo.name: elo.n_decisive for elo in elos},
    }


def _entrants(ratings: Ratings) -> dict[str, dict[str, object]]:
    nothing = np.full(len(ratings.models), np.nan)
    noise = ratings.extras.get("order_noise", nothing)
    low, high = (
        (nothing, nothing) if ratings.interval is None else (ratings.interval.low, ratings.interval.high)
    )
    columns = zip(ratings.models, ratings.rating, noise, low, high, strict=True)
    return {
        name: {
            "entrant_id": name,
            "mean": _finite(mean),
            "sem": _finite(sem),
            "ci95_low": _finite(lower),
            "ci95_high": _finite(upper),
        }
        for name, mean, sem, lower, upper in columns
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def elo_archive(elos: Sequence[EloRatings]) -> bytes:
    """`elo_per_perm.npz`: one row per order and one column per entrant; equal numbers make equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for elo in elos:
            runs = elo.primary.extras.get("per_permutation")
            if runs is not None:
                _put(archive, f"{elo.name}__data", np.asarray(runs, dtype=np.float64))
                _put(archive, f"{elo.name}__entrants", np.array(elo.primary.models, dtype=np.str_))
    return buffer.getvalue()


def _put(archive: zipfile.ZipFile, name: str, values: np.ndarray[Any, Any]) -> None:
    entry = io.BytesIO()
    np.lib.format.write_array(entry, np.ascontiguousarray(values), version=(1, 0), allow_pickle=False)
    archive.writestr(zipfile.ZipInfo(f"{name}.npy", ZIP_EPOCH), entry.getvalue())


def dimension_winrates(groups: Sequence[RatedGroup]) -> str:
    """`pairwise_winrates.csv` of a tournament: every pair that met in each dimension."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(PAIR_COLUMNS)
    for rated in groups:
        for (a, b), cell in sorted(_pairs(rated).items()):
            writer.writerow([rated.name, a, b, *(cell[name] for name in PAIR_COLUMNS[3:])])
    return text.getvalue()


#: The column that each kind adds to, if model a sorts first by name; otherwise the sides are swapped.
_ADDS = {
    Kind.WIN_A: ("a_wins",),
    Kind.WIN_B: ("b_wins",),
    Kind.LEAN_A: ("a_wins", "a_leans"),
    Kind.LEAN_B: ("b_wins", "b_leans"),
    Kind.TIE: ("ties",),
    Kind.INCONSISTENT: ("inconsistent",),
    Kind.BOTH_BAD: ("both_bad",),
}
_EXCHANGED = {"a_wins": "b_wins", "b_wins": "a_wins", "a_leans": "b_leans", "b_leans": "a_leans"}


def _pairs(rated: RatedGroup) -> dict[tuple[str, str], dict[str, int]]:
    table, kinds = rated.table, scoring_of(rated.ratings.method).counted_kinds()
    counts, found = table.counts, dict[tuple[str, str], dict[str, int]]()
    cells = (counts.a.tolist(), counts.b.tolist(), counts.kind.tolist(), counts.n.tolist())
    for a, b, kind, n in zip(*cells, strict=True):
        if a == b:
            continue
        pair = (table.models[min(a, b)], table.models[max(a, b)])
        cell = found.setdefault(pair, dict.fromkeys(PAIR_COLUMNS[3:], 0))
        for name in _ADDS[kinds[kind].plain]:
            cell[name if a < b else _EXCHANGED.get(name, name)] += n
        if kinds[kind].flagged:
            cell["both_bad"] += n
    return found
