"""Shadow boards: each model's place by legacy Elo and under the ranking policy, and why they differ.

Operators see them from phase 1 on, where readers see no result of the policy.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiltyard.arena.boards.snapshots import Snapshot, parsed_board
from tiltyard.core.board.arena_board import ArenaRow
from tiltyard.core.board.document import BoardDocument
from tiltyard.core.board.settled_order import claims_nothing
from tiltyard.wire.arenas import ShadowBoard, ShadowRow


def shadow_board(snapshot: Snapshot) -> ShadowBoard:
    """What a board says under the policy. Without models, if it was made before shadow boards were."""
    board = parsed_board(snapshot.shadow or snapshot.document)
    order = board.method.order
    seen = [row for row in board.rows if row.rank is not None and row.conservative is not None]
    legacy = _places({row.model: row.legacy_elo for row in seen})
    policy = _places({row.model: row.score(order) for row in seen})
    rating = policy if order == "bradley-terry" else _places({row.model: row.rating for row in seen})
    return ShadowBoard(
        arena=board.arena,
        source=board.source,
        snapshot=snapshot.sha256,
        position=board.position,
        generation=board.generation,
        votes=board.votes,
        phase=parsed_board(snapshot.document).phase,
        order=order,
        status=board.status,
        unordered=claims_nothing(board.settled),
        models=tuple(_shadow_row(board, row, legacy, rating, policy) for row in seen),
    )


def _places(scores: Mapping[str, float | None]) -> dict[str, int]:
    """Places from 1 by falling score, of models that have one; equal ones stay in the order of the board."""
    known = {model: score for model, score in scores.items() if score is not None}
    return {model: n for n, model in enumerate(sorted(known, key=lambda model: -known[model]), start=1)}


_Places = Mapping[str, int]


def _shadow_row(
    board: BoardDocument, row: ArenaRow, legacy: _Places, rating: _Places, policy: _Places
) -> ShadowRow:
    return ShadowRow(
        model=row.model,
        legacy_rank=legacy.get(row.model),
        policy_rank=policy.get(row.model),
        legacy_elo=row.legacy_elo,
        rating=row.rating,
        rd=row.rd,
        volatility=row.volatility,
        conservative=row.conservative,
        bradley_terry=row.bradley_terry,
        coverage=None if row.coverage is None else row.coverage.strict,
        badge=None if row.badge is None else row.badge.value,
        why=_why(board, row, legacy, rating, policy),
    )


def _why(board: BoardDocument, row: ArenaRow, legacy: _Places, rating: _Places, policy: _Places) -> str:
    """Why the two places differ: first by the other rating, then by what uncertainty takes off it."""
    by_elo, by_rating, by_policy = (places.get(row.model) for places in (legacy, rating, policy))
    if by_elo is None or by_rating is None or by_policy is None:
        return "It has no score under the policy yet."
    if by_elo == by_policy:
        return ""
    said = []
    if by_rating != by_elo:
        method = "Bradley–Terry" if board.method.order == "bradley-terry" else "Glicko-2"
        higher = "higher" if by_rating < by_elo else "lower"
        passed = [
            other.both_bad
            for other in board.rows
            if legacy.get(other.model, by_elo) < by_elo and rating.get(other.model, 0) > by_rating
        ]
        bad = ""
        if by_rating < by_elo and passed and row.both_bad > max(passed):
            bad = f"; its {row.both_bad:,} both-bad votes, more than those of the models it passes, lower Elo only"
        said.append(
            f"{_moved(by_elo, by_rating)}: {method} rates it {higher} among the others than Elo{bad}."
        )
    if by_policy != by_rating:
        than = "less" if by_policy < by_rating else "more"
        said.append(
            f"{_moved(by_rating, by_policy)}: 2·RD takes {row.confidence:.0f} off its rating, {than} than off others’."
        )
    return " ".join(said)


def _moved(before: int, after: int) -> str:
    places = abs(before - after)
    return f"{places} place{'s' if places != 1 else ''} {'up' if after < before else 'down'}"
