"""A board as a document: complete, plain, and the same bytes for the same board."""

import json
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from support.boarded_arenas import BAD, TIE, A, arena, noisy, settled
from tiltyard.core.board.arena_board import ArenaBoard, make_arena_board
from tiltyard.core.board.board_summary import headline_of
from tiltyard.core.board.cross_check import batch_ratings
from tiltyard.core.board.document import (
    FORMAT,
    BoardDocument,
    BoardMethod,
    canonical_json,
    document_hash,
    published_number,
    ranks_above,
    row_to_dict,
)
from tiltyard.core.policy.validity.publication import EvaluationHistory
from tiltyard.errors import BadOption, InputError

NOON = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
METHOD = BoardMethod()


def whole_board(standing=None, **rest):
    standing = noisy(1, np.linspace(-1, 1, 6), n=2500, prompts=20) if standing is None else standing
    elo = np.full(len(standing.models), 1500.0)
    return make_arena_board(
        standing,
        EvaluationHistory(),
        legacy_elo=elo,
        batch=batch_ratings(standing),
        **rest,
    )


def published(board=None, **rest):
    about = {
        "arena": "poems",
        "source": "human",
        "position": 77,
        "generation": 2,
        "at": NOON,
        "method": METHOD,
    }
    return BoardDocument.of(whole_board() if board is None else board, **(about | rest))


def document(board=None, **rest):
    return published(board, **rest).to_dict()


def leaves(value, path=()):
    """Every number and word of a board, with where it stands."""
    if is_dataclass(value):
        for field in fields(value):
            yield from leaves(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple | dict):
        for k, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*path, k))
    else:
        yield path, value


def at_path(plain, path):
    for step in path:
        plain = plain[step]
    return plain


@pytest.mark.parametrize("phase", [1, 2, 3, 4])
def test_everything_that_a_board_shows_is_in_its_document(phase):
    board = whole_board(noisy(1, np.linspace(-1, 1, 6), n=2500, prompts=20, phase=phase))
    plain = json.loads(canonical_json(document(board)))
    seen = 0
    for path, value in leaves(board):
        shown = published_number(value) if isinstance(value, float) else value
        assert at_path(plain, path) == shown, path
        seen += 1
    assert seen > (50 if phase == 1 else 300)


def test_it_says_where_in_the_log_it_stands_and_what_made_it():
    plain = document()
    assert plain["format"] == FORMAT
    assert (plain["arena"], plain["source"]) == ("poems", "human")
    assert (plain["position"], plain["generation"], plain["at"]) == (77, 2, "2026-03-01T12:00:00.000005Z")
    assert plain["method"]["policy"]["evaluated_every"] == 250
    assert plain["method"]["rater"]["glicko2"]["initial_volatility"] == 0.003


def test_what_is_worked_out_from_a_row_stands_in_it():
    row = document(whole_board(arena([1600, 1500], [(0, 1, 0, A), (0, 1, 0, TIE), (0, 1, 0, BAD)])))["rows"][
        0
    ]
    assert row["votes"] == row["record"]["votes"] == 3
    assert (row["record"]["rated"], row["record"]["win_rate"]) == (2, 0.5)
    served = document()["serving"]
    assert served["within"] in (True, False)
    assert isinstance(served["deviation"], float)


def test_times_of_another_zone_are_written_in_utc_and_times_of_none_are_refused():
    east = NOON.astimezone(timezone(timedelta(hours=9)))
    assert document(at=east)["at"] == document()["at"]
    with pytest.raises(BadOption, match="time zone"):
        document(at=datetime(2026, 3, 1))


def test_a_document_is_canonical_json_of_its_board():
    same = [canonical_json(document(whole_board(settled()))) for _ in range(2)]
    assert same[0] == same[1]
    assert len({document_hash(one) for one in same}) == 1
    assert canonical_json(document(whole_board(settled(n=8)))) != same[0]
    written = canonical_json(document())
    assert written == canonical_json(json.loads(written))
    assert b'": ' not in written
    assert b"NaN" not in written
    row = replace(whole_board().rows[0], spread=float("nan"), rating=float("inf"))
    plain = row_to_dict(row)
    assert (plain["spread"], plain["rating"]) == (None, None)
    with pytest.raises(ValueError):
        canonical_json({"bar": float("nan")})


HOSTILE = [
    "</script><script>alert(1)</script>",
    "a\u202eb",
    '🦆\n\t\\"',
    "'; DROP TABLE models; --",
    "\x00\x1b[31m",
]


def test_hostile_names_come_back_as_they_were():
    board = whole_board(arena([1500.0 - k for k in range(5)], names=HOSTILE))
    assert [row["model"] for row in json.loads(canonical_json(document(board)))["rows"]] == HOSTILE


def test_no_field_of_a_board_shares_its_name_with_what_is_said_about_it():
    own = set(document()) - {field.name for field in fields(ArenaBoard)}
    assert own == {"format", "arena", "source", "position", "generation", "at", "method"}


@pytest.mark.parametrize("written", ["[" * 100_000, "{", b"\xff"])
def test_what_is_no_json_is_one_error(written):
    with pytest.raises(InputError, match="JSON"):
        BoardDocument.from_json(written)


@pytest.mark.parametrize(
    ("last", "first", "above"),
    [(1, 2, True), (2, 2, False), (3, 2, False), (None, 2, False), (1, None, False)],
)
def test_a_model_is_above_another_if_its_last_rank_comes_before_the_others_first(last, first, above):
    assert ranks_above(last, first) is above


@pytest.mark.parametrize(("unplaced", "case"), [(3, "first"), (4, "nobody")])
def test_nobody_is_first_where_nothing_is_settled_about_most_models(unplaced, case):
    board = published()
    ranks = [(1, 1), *[(2, 6)] * (5 - unplaced), *[(1, 6)] * unplaced]
    rows = [
        replace(row, rank_low=low, rank_high=high) for row, (low, high) in zip(board.rows, ranks, strict=True)
    ]
    assert headline_of(replace(board, rows=tuple(rows))).case == case
