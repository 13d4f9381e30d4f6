"""What a board may claim: settled pairs, shared ranks, tiers, one sentence; and when a claim or a word is taken back."""

from dataclasses import replace

import numpy as np
import pytest

from support.boarded_arenas import A, B, arena, noisy
from support.sizes import sized
from tiltyard.core.board.arena_board import make_arena_board
from tiltyard.core.board.cross_check import BatchHistory, EvaluatedOrder, batch_ratings, cross_check
from tiltyard.core.board.settled_order import (
    LIKE_THESE,
    THESE,
    claims_nothing,
    claims_of,
    least_votes,
    place_of,
    settled_orders,
    withdrawn_orders,
)
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.publication import EvaluationHistory, evaluate
from tiltyard.core.ratings.ranks import close_order
from tiltyard.errors import BadOption


def marks(m, *pairs):
    above = np.zeros((m, m), dtype=bool)
    for one, other in pairs:
        above[one, other] = True
    return above


def both(m, *pairs):
    return {THESE: marks(m, *pairs), LIKE_THESE: marks(m, *pairs)}


def claimed(m, *pairs):
    return claims_of(np.arange(m), both(m, *pairs), 1000, [f"m{k}" for k in range(m)])


def test_ranks_and_tiers_follow_from_what_is_settled():
    claims = claimed(4, (0, 2), (0, 3), (1, 3))
    assert claims.rank_low == (1, 1, 2, 3)
    assert claims.rank_high == (2, 3, 4, 4)
    assert claims.tier == (1, 1, 1, 1)
    assert claims.above_next == ((), (), (), ())
    claims = claimed(4, (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    assert claims.tier == (1, 1, 2, 3)
    assert claims.rank_low == (1, 1, 3, 4)
    assert claims.above_next[1:3] == ((THESE, LIKE_THESE), (THESE, LIKE_THESE))
    claims = claims_of(np.arange(2), {THESE: marks(2, (0, 1)), LIKE_THESE: marks(2)}, 1000, ["a", "b"])
    assert (claims.rank_low, claims.rank_high, claims.tier) == ((1, 1), (2, 2), (1, 1))
    assert claims.above_next == ((THESE,), ())
    assert claims.sentence.values["case"] == "nothing"
    claims = claims_of(np.array([2, 0]), both(3, (1, 0), (1, 2), (2, 0)), 1000, ["a", "b", "c"])
    assert (claims.rank_low, claims.rank_high, claims.tier) == ((1, 2), (1, 2), (1, 2))


ALL = [(i, j) for i in range(4) for j in range(i + 1, 4)]


@pytest.mark.parametrize(
    ("m", "pairs", "words"),
    [
        (0, [], ["fewer than two"]),
        (1, [], ["fewer than two"]),
        (4, [], ["No order"]),
        (4, ALL, ["all 4 models"]),
        (4, [(0, 1), (0, 2), (0, 3)], ["m0 is first.", "3 of all 6", "1 of 3"]),
        (4, [(0, 3), (1, 3), (2, 3)], ["m0, m1, m2.", "3 of all 6", "1 of 3"]),
        (6, [(0, 4), (1, 5), (2, 4), (3, 5)], ["4 models", "m0, m1, m2 and 1 more", "4 of all 15", "0 of 5"]),
        (6, [(0, 4)], ["m0 is first", "; 4 cannot.", "1 of all 15", "0 of 5"]),
        (6, [(0, 4), (1, 4)], ["m0, m1; 3 cannot", "2 of all 15", "0 of 5"]),
        (4, [(1, 0), (0, 2), (1, 2), (1, 3), (0, 3)], ["5 of 6", "1 of them"]),
    ],
)
def test_one_sentence_says_what_is_settled(m, pairs, words):
    said = claimed(m, *pairs).sentence.text
    assert all(word in said for word in words), said


def test_a_newcomer_about_whom_nothing_is_settled_shares_no_first_place():
    """It may be first, or last: readers are told that it cannot be placed."""
    claims = claimed(4, (0, 1), (0, 2), (1, 2))
    assert claims.rank_low == (1, 2, 3, 1)
    said = claims.sentence.values
    assert (said["case"], said["sharing"], said["unplaced"]) == ("first-of-placed", ("m0",), 1)


def test_sentence_and_ranks_count_the_same_models():
    rng = np.random.default_rng(39)
    for _ in range(2000):
        m = int(rng.integers(2, 9))
        above = close_order(np.triu(rng.random((m, m)) < rng.uniform(0.0, 0.6), 1))
        claims = claims_of(np.arange(m), {LIKE_THESE: above}, 1000, [f"m{k}" for k in range(m)])
        ranges = list(zip(claims.rank_low, claims.rank_high, strict=True))
        places = [place_of(low, high, m) for low, high in ranges]
        said = claims.sentence.values
        assert said["first"] + said["unplaced"] == claims.rank_low.count(1)
        assert said["unplaced"] == places.count("unplaced") == np.sum(~above.any(axis=0) & ~above.any(axis=1))
        assert (said["first"] == 1 and not said["unplaced"]) == ((1, 1) in ranges)


@pytest.mark.parametrize(("m", "pairs", "nothing"), [(1, [], True), (3, [], True), (3, [(0, 2)], False)])
def test_a_sentence_without_any_settled_pair_claims_nothing(m, pairs, nothing):
    assert claims_nothing(claimed(m, *pairs).sentence) is nothing
    assert claims_nothing(None) is False


def by_voters(seed, strengths, *, voters, n=3000, prompts=40, taste=0.0):
    """Votes of a few people with tastes, or of many."""
    rng = np.random.default_rng(seed)
    m = len(strengths)
    effect = rng.normal(0.0, taste, (m, voters))
    standing = Standing(Policy(), [f"m{k}" for k in range(m)], [f"p{k}" for k in range(prompts)])
    for model in range(m):
        standing.enable(model)
    for _ in range(n):
        a = int(rng.integers(m))
        b = int((a + rng.integers(1, m)) % m)
        voter = int(rng.integers(voters))
        gap = strengths[a] - strengths[b] + effect[a, voter] - effect[b, voter]
        kind = A if rng.random() < 1.0 / (1.0 + np.exp(-gap)) else B
        standing.vote(a, b, int(rng.integers(prompts)), kind, voter)
    return standing


def test_a_clear_order_is_settled_in_both_scopes():
    standing = by_voters(1, [1.0, 0.0, -1.0], voters=60)
    found = settled_orders(standing, batch_ratings(standing))
    for scope in (THESE, LIKE_THESE):
        assert np.argwhere(found[scope]).tolist() == [[0, 1], [0, 2], [1, 2]]


def test_votes_of_too_few_people_settle_nothing_however_many_they_are():
    standing = by_voters(1, [1.0, 0.0, -1.0], voters=9)
    batch = batch_ratings(standing)
    assert batch.voters_lacking
    assert not any(above.any() for above in settled_orders(standing, batch).values())
    assert "few-voters" in {finding.name for finding in batch.findings}


@pytest.mark.parametrize("known", [True, False])
def test_votes_on_one_prompt_settle_nothing_for_others_like_it(known):
    standing = by_voters(1, [1.0, 0.0, -1.0], voters=20, prompts=1, n=1500)
    if not known:
        standing.vote_log.columns()["session"][:] = -1
    batch = batch_ratings(standing)
    found = settled_orders(standing, batch)
    assert batch.prompts_lacking
    assert found[THESE].sum() == 3
    assert not found[LIKE_THESE].any()
    assert not batch_ratings(by_voters(1, [1.0, 0.0], voters=20, prompts=4, n=400)).prompts_lacking


def test_tastes_of_a_few_people_are_not_an_order():
    """Equal models, 20 voters whose tastes differ by a logit: clustering by prompt alone claims an order in many arenas."""
    by_voter = by_prompt = 0
    for seed in range(sized(5, 8)):
        standing = by_voters(seed, [0.0] * 5, voters=20, taste=1.0)
        by_voter += settled_orders(standing, batch_ratings(standing))[LIKE_THESE].any()
        log = standing.vote_log.columns()
        log["session"][:] = -1
        by_prompt += settled_orders(standing, batch_ratings(standing))[LIKE_THESE].any()
    assert by_voter <= 1
    assert by_prompt >= sized(2, 4)


def test_a_standing_without_votes_cannot_be_rated():
    standing = noisy(1, [1.0, -1.0])
    standing.forget_votes()
    with pytest.raises(BadOption, match="batch ratings need"):
        batch_ratings(standing)


def test_a_claim_that_is_not_made_any_more_is_withdrawn():
    gone = withdrawn_orders(both(3, (0, 1)), [both(3, (0, 1), (0, 2)), both(3, (1, 2))], np.array([True] * 3))
    assert gone == [(0, 2), (1, 2)]
    assert withdrawn_orders(both(3), [both(3, (1, 2))], np.array([True, True, False])) == []


def test_a_board_says_which_claims_are_withdrawn():
    standing = noisy(3, [0.0, 0.02], n=900)
    sure = batch_ratings(noisy(4, [1.0, -1.0], n=900))
    batch = replace(batch_ratings(standing), evaluated=(EvaluatedOrder(standing.order, sure),))
    board = make_arena_board(standing, EvaluationHistory(), batch=batch)
    (finding,) = (one for one in board.findings if one.name == "order-withdrawn")
    assert "m0 above m1" in finding.text


def test_batch_ratings_of_evaluations_are_those_of_the_votes_until_then():
    standing = noisy(1, [0.5, 0.0, -0.5], n=500)
    history = EvaluationHistory(
        (replace(evaluate(standing), votes=200), replace(evaluate(standing), votes=450))
    )
    remembered = BatchHistory()
    batch = remembered.ratings(standing, history)
    assert [one.batch.votes for one in batch.evaluated] == [200, 450]
    for one, votes in zip((*batch.evaluated, None), (200, 450, 500), strict=True):
        fitted = batch if one is None else one.batch
        assert fitted.rating.tolist() == batch_ratings(standing, votes=votes).rating.tolist()
    again = remembered.ratings(standing, history)
    assert again.evaluated[0].batch is batch.evaluated[0].batch
    standing.widen((*standing.models, "new"), standing.prompts)
    assert len(remembered.ratings(standing, history).evaluated[0].batch.rating) == 4


def inverted(standing, *orders):
    batch = batch_ratings(standing)
    return replace(batch, evaluated=tuple(EvaluatedOrder(np.array(order), batch) for order in orders))


def test_orders_that_differ_by_more_than_a_standard_error_disagree_at_the_second_evaluation():
    standing = noisy(2, [0.1, 0.0], n=1000)
    batch = batch_ratings(standing)
    assert 1.0 < (batch.rating[0] - batch.rating[1]) / np.sqrt(batch.uncertainty.differences()[0, 1]) < 1.9
    wrong = np.array([1, 0])
    assert cross_check(standing, inverted(standing, [1, 0]), wrong).alarm is None
    assert cross_check(standing, inverted(standing, [0, 1], [1, 0]), wrong).alarm is None
    check = cross_check(standing, inverted(standing, [1, 0], [1, 0]), wrong)
    assert [(pair.above, pair.below) for pair in check.disagreements] == [("m1", "m0")]
    assert cross_check(standing, replace(inverted(standing, [1, 0], [1, 0]), uncertainty=None), wrong).alarm
    unknown = inverted(standing, [1, 0], [1, 0])
    unknown = replace(
        unknown,
        evaluated=[replace(one, batch=replace(one.batch, uncertainty=None)) for one in unknown.evaluated],
    )
    assert cross_check(standing, unknown, wrong).alarm is None


def official(standing):
    held = replace(evaluate(standing), holds=True)
    return EvaluationHistory((held,) * 3)


def test_officially_stable_is_held_while_the_orders_disagree():
    votes = [(a, b, p, A) for _ in range(7) for a in range(3) for b in range(a + 1, 3) for p in range(6)]
    votes += [(b, a, p, A) for _ in range(3) for a in range(3) for b in range(a + 1, 3) for p in range(6)]
    standing = arena([1700, 1600, 1500], votes)
    plain = make_arena_board(standing, official(standing), batch=batch_ratings(standing))
    assert plain.status == "official"
    upside_down = arena([1500, 1600, 1700], votes)
    batch = inverted(upside_down, upside_down.order, upside_down.order)
    held = make_arena_board(upside_down, official(upside_down), batch=batch)
    assert held.status == "calibrating"
    assert {"official-held", "orders-disagree"} <= {finding.name for finding in held.findings}
    assert not any(row.official for row in held.rows)


def test_rows_carry_what_is_settled_and_phase_1_does_not_show_it():
    standing = noisy(1, [2.0, 0.02, 0.0, -2.0])
    board = make_arena_board(standing, EvaluationHistory(), batch=batch_ratings(standing))
    assert [(row.rank_low, row.rank_high, row.tier) for row in board.rows] == [
        (1, 1, 1),
        (2, 3, 2),
        (2, 3, 2),
        (4, 4, 3),
    ]
    assert "5 of all 6" in board.settled.text
    assert board.rows[0].settled == (THESE, LIKE_THESE)
    shadow = noisy(1, [2.0, 0.02, 0.0, -2.0], phase=1)
    board = make_arena_board(
        shadow, EvaluationHistory(), legacy_elo=np.arange(4.0), batch=batch_ratings(shadow)
    )
    assert board.settled is None
    assert not any(row.tier or row.settled for row in board.rows)


def test_a_small_arena_may_settle_something_before_300_votes():
    for models, prompts, least in (
        (3, 3, 25),
        (3, 6, 25),
        (3, 20, 86),
        (3, 40, 172),
        (3, 200, 300),
        (20, 100, 300),
    ):
        assert least_votes(arena(np.arange(float(models)), prompts=prompts)) == least


def test_what_would_settle_more_is_said_while_an_order_is_open():
    def said(strengths, prompts):
        standing = noisy(1, strengths, prompts=prompts, n=300)
        board = make_arena_board(standing, EvaluationHistory(), batch=batch_ratings(standing))
        return [dict(one.values) for one in board.findings if one.name == "few-prompts-to-settle"]

    assert said([0.0, 0.0, 0.0], 6) == [{"prompts": 6, "more": 14}]
    assert said([0.0, 0.0, 0.0], 1) == [{"prompts": 1, "more": 19, "case": "one"}]
    assert said([0.0, 0.0, 0.0], 20) == []
    assert said([4.0, 0.0, -4.0], 18) == []


def test_a_rule_that_holds_says_when_the_board_is_official():
    votes = [(a, b, p, A) for _ in range(8) for a in range(3) for b in range(a + 1, 3) for p in range(6)]
    standing = arena([1700, 1600, 1500], votes)
    held = replace(evaluate(standing), holds=True)
    for holding, expected in (((), (3, 6 + 50)), ((held,), (2, 6 + 25)), ((held,) * 2, (1, 6))):
        board = make_arena_board(
            standing, EvaluationHistory(holding, next_votes=150), batch=batch_ratings(standing)
        )
        assert board.status == "calibrating"
        (found,) = (one for one in board.findings if one.name == "official-next")
        assert (found.values["evaluations"], found.values["votes"]) == expected
        assert "votes" in found.text
