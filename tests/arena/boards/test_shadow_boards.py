"""Shadow boards: the places of both orders are those of a naive sort, and what is only the policy's is not on the board."""

from dataclasses import replace

import pytest

from support import folded_log
from support.folded_log import board, folded
from tiltyard.arena.boards.shadow_boards import shadow_board
from tiltyard.arena.boards.snapshots import Snapshot
from tiltyard.core.board.document import BoardDocument
from tiltyard.core.policy.state.policy import Policy


def shadow_of(document: BoardDocument, shadow: BoardDocument | None = None):
    return shadow_board(
        Snapshot(
            arena=1, source=0, generation=0, position=1, sha256="x", votes=document.votes, evaluated=False,
            document=document.to_json().decode(), strengths=None,
            shadow=None if shadow is None else shadow.to_json().decode(),
        )
    )  # fmt: skip


@pytest.fixture(params=[2, 3, 4])
def document(request, monkeypatch) -> BoardDocument:
    monkeypatch.setattr(folded_log, "POLICY", replace(folded_log.POLICY, phase=request.param))
    *_, last = folded(9, 600)
    return board(last)


@pytest.mark.parametrize("order", ["conservative", "bradley-terry"])
def test_places_are_those_of_a_naive_sort(document, order):
    document = replace(document, method=replace(document.method, order=order))
    found = shadow_of(document)
    rows = {row.model: row for row in document.rows if row.enabled}
    assert {one.model for one in found.models} == rows.keys()
    for one in found.models:
        row = rows[one.model]
        assert one.legacy_rank == 1 + sum(each.legacy_elo > row.legacy_elo for each in rows.values())
        assert one.policy_rank == 1 + sum(each.score(order) > row.score(order) for each in rows.values())
        assert bool(one.why) == (one.legacy_rank != one.policy_rank)
        assert (one.rd, one.volatility, one.badge) == (row.rd, row.volatility, row.badge)
    assert (found.order, found.phase) == (order, document.phase)
    assert found.moved == sum(one.legacy_rank != one.policy_rank for one in found.models)
    today = "legacy_rank" if document.phase == 2 else "policy_rank"
    if document.phase == 2 or order == document.order:
        assert [getattr(one, today) for one in found.models] == [one + 1 for one in range(len(rows))]


def test_what_uncertainty_takes_off_is_told_apart_from_another_rating(document):
    def changed(**models):
        rows = tuple(replace(row, **models.get(row.model, {})) for row in document.rows if row.rank)
        return {one.model: one for one in shadow_of(replace(document, rows=rows)).models}

    first, second = (row for row in document.rows if row.rank in (1, 2))
    same = {"legacy_elo": 9000.0, "rating": 9000.0, "rd": 1.0, "conservative": 8998.0, "bradley_terry": 1.0}
    unsure = {**same, "legacy_elo": 9001.0, "rating": 9001.0, "rd": 50.0, "conservative": 8901.0}
    found = changed(**{first.model: unsure, second.model: same})
    assert (found[first.model].legacy_rank, found[first.model].policy_rank) == (1, 2)
    assert "2·RD takes 100 off" in found[first.model].why
    assert "Elo" not in found[first.model].why
    other = {**same, "legacy_elo": 9001.0, "rating": 8999.0, "conservative": 8997.0}
    found = changed(**{first.model: other, second.model: same})
    assert "Glicko-2" in found[first.model].why
    assert "RD" not in found[first.model].why
    unmoved = {**same, "legacy_elo": 9001.0, "rating": 9001.0, "conservative": 8999.0}
    assert {
        one.why
        for name, one in changed(**{first.model: unmoved, second.model: same}).items()
        if name in (first.model, second.model)
    } == {""}


def test_both_bad_votes_explain_a_rise_past_models_with_fewer_of_them(document):
    """By legacy Elo: first, second, third. By the rating: third, first, second, or as many as are changed."""

    def why(both_bad, elos, ratings):
        changed = {
            row.model: replace(
                row,
                legacy_elo=9000.0 + elo,
                rating=9000.0 + rating,
                conservative=9000.0 + rating - 2,
                rd=1.0,
                record=replace(row.record, both_bad=bad),
            )
            for row, bad, elo, rating in zip(document.rows, both_bad, elos, ratings, strict=False)
        }
        rows = tuple(changed.get(row.model, row) for row in document.rows)
        said = {one.model: one for one in shadow_of(replace(document, rows=rows)).models}
        return [said[model] for model in changed]

    first, second, third = why((10, 20, 3000), (30, 20, 10), (20, 10, 30))
    assert "3,000 both-bad" in third.why
    assert "both-bad" not in first.why + second.why
    assert "both-bad" not in why((10, 3000, 3000), (30, 20, 10), (20, 10, 30))[2].why
    # Up by the rating and down again by what uncertainty takes off: nothing changes, so nothing is explained.
    one, other = (row for row in document.rows if row.rank in (1, 2))
    same = {"legacy_elo": 9000.0, "rating": 9001.0, "rd": 50.0, "conservative": 8901.0}
    best = {"legacy_elo": 9001.0, "rating": 9000.0, "rd": 1.0, "conservative": 8998.0}
    changed = {one.model: best, other.model: same}
    rows = tuple(replace(row, **changed.get(row.model, {})) for row in document.rows)
    found = shadow_of(replace(document, rows=rows))
    moved = [each for each in found.models if each.model not in changed and each.why]
    assert {each.why for each in found.models if each.model in changed} == {""}
    assert found.moved == len(moved)


def test_a_board_of_phase_1_says_nothing_without_its_shadow(document, monkeypatch):
    monkeypatch.setattr(folded_log, "POLICY", Policy(phase=1))
    *_, last = folded(4, 100)
    assert shadow_of(board(last)).models == ()
    found = shadow_of(board(last), document)
    assert (found.phase, len(found.models)) == (1, sum(row.enabled for row in document.rows))
