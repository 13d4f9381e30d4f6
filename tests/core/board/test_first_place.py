"""How many votes would change first place: counted by adding them, one by one."""

from dataclasses import replace

import numpy as np
import pytest

from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.board import arena_board as first_place
from tiltyard.core.board.arena_board import make_arena_board, with_first_place
from tiltyard.core.board.cross_check import batch_ratings
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.publication import EvaluationHistory
from tiltyard.core.ratings import BradleyTerry

METHOD = BradleyTerry(interval="none", max_share=None)


def voted(phase=3, *, votes=400, models=4, met=None):
    """A standing and its rater; the first model is the best. ``met``: only these pairs meet."""
    rng = np.random.default_rng(7)
    strength = np.linspace(0.8, -0.8, models)
    standing = Standing(Policy(phase=phase), [f"m{k}" for k in range(models)], ["p"])
    for model in range(models):
        standing.enable(model)
    rater = Rater(RaterSettings(), models)
    for _ in range(votes):
        a, b = rng.permutation(models)[:2].tolist() if met is None else met[rng.integers(len(met))]
        kind = Kind.WIN_A if rng.random() < 1 / (1 + np.exp(strength[b] - strength[a])) else Kind.WIN_B
        add(standing, rater, a, b, kind)
    return standing, rater


def add(standing, rater, a, b, kind):
    standing.serve(a, b, 0)
    standing.vote(a, b, 0, kind)
    rater.vote(a, b, kind)


def board_of(standing, rater, order="conservative"):
    standing.rank(rater.strengths(standing.enabled))
    board = make_arena_board(
        standing,
        EvaluationHistory(),
        order=order,
        legacy_elo=rater.elo,
        batch=batch_ratings(standing, METHOD) if standing.votes else None,
    )
    return with_first_place(board, standing, rater, METHOD)


@pytest.mark.parametrize(
    ("phase", "order", "met"),
    [
        (2, "conservative", None),
        (3, "conservative", None),
        (3, "bradley-terry", None),
        # The first two never met.
        (3, "bradley-terry", [(0, 2), (0, 3), (1, 2), (1, 3), (3, 2)]),
        (3, "bradley-terry", [(2, 0), (3, 0), (2, 1), (3, 1), (2, 3)]),
    ],
)
def test_so_many_votes_change_first_place_and_one_fewer_does_not(phase, order, met):
    standing, rater = voted(phase, met=met)
    said = board_of(standing, rater, order).first_place
    assert said.votes > 1
    before = rater.to_dict()
    first, second = standing.models.index(said.first), standing.models.index(said.second)
    for _ in range(said.votes - 1):
        add(standing, rater, second, first, Kind.WIN_A)
    assert board_of(standing, rater, order).rows[0].model == said.first
    assert board_of(standing, rater, order).first_place == replace(said, votes=1)
    add(standing, rater, first, second, Kind.WIN_B)
    assert board_of(standing, rater, order).rows[0].model == said.second
    assert before["votes"] == 400, "asking changes no rating"


@pytest.mark.parametrize("order", ["conservative", "bradley-terry"])
@pytest.mark.parametrize("phase", [2, 3])
def test_beyond_the_limit_nothing_is_counted(monkeypatch, phase, order):
    standing, rater = voted(phase)
    needed = board_of(standing, rater, order).first_place.votes
    for limit, found in ((needed, needed), (needed - 1, None)):
        monkeypatch.setattr(first_place, "FIRST_PLACE_VOTE_LIMIT", limit)
        said = board_of(standing, rater, order).first_place
        assert (said.votes, said.limit) == (found, limit)


def test_one_vote_is_enough_where_two_models_are_level():
    standing, rater = voted(votes=0, models=2)
    add(standing, rater, 0, 1, Kind.TIE)
    for order in ("conservative", "bradley-terry"):
        assert board_of(standing, rater, order).first_place.votes == 1


def test_there_is_no_first_place_without_two_ranked_models():
    standing, rater = voted(votes=0)
    assert board_of(standing, rater).first_place is None
    standing, rater = voted(models=2, votes=9)
    standing.retire(1)
    assert board_of(standing, rater).first_place is None


def test_votes_that_are_folded_together_count_the_same():
    _, rater = voted()
    again = Rater.from_dict(rater.settings, rater.to_dict())
    needed = rater.votes_to_pass(3, 0, elo=False, limit=500)
    wins = np.full(needed, 3), np.zeros(needed, dtype=np.int64), np.zeros(needed, dtype=np.uint8)
    again.fold(CodedBattles(*wins))
    score = again.strengths(np.ones(4, dtype=bool)).conservative()
    assert score[3] > score[0]
    assert again.votes_to_pass(3, 0, elo=False, limit=0) == 0
