"""What readers of an arena are told to do about findings of a fit."""

from support.boarded_arenas import A, arena, noisy
from tiltyard.core.board.cross_check import ARENA_ADVICE, arena_advice, batch_ratings, with_arena_advice
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.finding_templates import FINDINGS


def test_advice_belongs_to_findings_that_there_are():
    assert set(ARENA_ADVICE) <= set(FINDINGS)


def test_other_findings_keep_their_advice():
    plain = Finding("not-converged")
    assert arena_advice(plain) is None
    assert with_arena_advice(plain) is plain


def test_a_model_that_won_everything_is_named_with_what_that_means_here():
    votes = [(0, 1 + k % 2, k % 6, A) for k in range(60)]
    votes += [(1, 2, k % 6, A) for k in range(20)] + [(2, 1, k % 6, A) for k in range(20)]
    (found,) = (
        one for one in batch_ratings(arena([1700, 1500, 1500], votes)).findings if one.name == "only-wins"
    )
    assert found.text.startswith("m0 won")
    assert found.advice == with_arena_advice(Finding("only-wins", found.values)).advice
    assert "--" not in found.advice


def test_findings_of_a_board_name_no_option():
    votes = [(0, 1, 0, A)] * 40 + [(1, 0, 0, A)] * 30 + [(0, 1, k % 6, A) for k in range(20)]
    for standing in (arena([1700, 1500, 1400], votes), noisy(1, [3.0, 0.0], n=60, prompts=2)):
        for finding in batch_ratings(standing).findings:
            assert "--" not in finding.advice
