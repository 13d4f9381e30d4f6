"""The red team at a small size; `just red-team` runs it at full size."""

import numpy as np
import pytest

from lab.redteam.attack_run import FIRST_ACCOUNT_CODE, AttackSize, run_attack, seen_matchup
from lab.redteam.attacks import ATTACKS, Attacker, attack_named
from lab.redteam.defences import DEFENCES, Defence, attack_seconds
from lab.redteam.demo_content import demo_content
from lab.redteam.log_board import out_of_range, rank_among
from lab.redteam.memory_arena import MemoryArena
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.events import NO_MARK, VoteMark

CONTENT = demo_content()
TARGET = CONTENT.models.index("ibis-nano")
OTHER = CONTENT.models.index("argent-70b")
ALL = DEFENCES[-1]
SMALL = AttackSize(history=150, meanwhile=60, share=0.2, accounts=5)


def attacker(name, content=CONTENT, votes=100):
    return Attacker(attack_named(name), content, TARGET, np.random.default_rng(1), votes)


@pytest.mark.parametrize(
    "name", [plan.name for plan in ATTACKS if plan.name not in ("clone flooding", "fingerprint")]
)
def test_an_attack_votes_for_the_target_on_either_side(name):
    one = attacker(name)
    one.learn({text: model for (model, _), text in CONTENT.responses.items()})
    assert one.decide(seen_matchup(CONTENT, (TARGET, OTHER, 0))) == Kind.WIN_A
    assert one.decide(seen_matchup(CONTENT, (OTHER, TARGET, 0))) == Kind.WIN_B


def test_a_dictionary_knows_nothing_before_names_are_told():
    one = attacker("dictionary", votes=0)
    assert one.decide(seen_matchup(CONTENT, (TARGET, OTHER, 0))) is None
    one.learn({CONTENT.responses[TARGET, 0]: TARGET})
    assert one.decide(seen_matchup(CONTENT, (TARGET, OTHER, 0))) == Kind.WIN_A
    assert one.decide(seen_matchup(CONTENT, (TARGET, OTHER, 1))) is None


def test_a_fingerprint_recognises_texts_that_it_was_not_trained_on():
    one = attacker("fingerprint")
    texts = [prompt for prompt in range(1, len(CONTENT.prompts), 2) if CONTENT.is_text[prompt]]
    found = [one.for_target(seen_matchup(CONTENT, (TARGET, OTHER, prompt))) for prompt in texts]
    assert found.count(Kind.WIN_A) > len(texts) / 2
    assert Kind.WIN_B not in found


def test_who_copies_colludes_or_skips_votes_as_planned():
    content = CONTENT.with_copies(TARGET, 4)
    one, copy = attacker("clone flooding", content), len(CONTENT.models)
    assert one.decide(seen_matchup(content, (copy, OTHER, 0))) == Kind.WIN_A
    assert one.decide(seen_matchup(content, (copy, TARGET, 0))) == Kind.WIN_B
    assert one.decide(seen_matchup(content, (OTHER, OTHER + 1, 0))) is None
    one, rival = attacker("colluding cohort"), CONTENT.models.index("heron-1b")
    assert one.decide(seen_matchup(CONTENT, (rival, OTHER, 0))) == Kind.WIN_B
    assert attacker("skip farming").decide(seen_matchup(CONTENT, (0, 1, 0))) is None


def test_hasty_told_and_unexplained_votes_do_not_count():
    arena = MemoryArena(CONTENT, ALL, 1)
    assert arena.vote(arena.serve(1), Kind.WIN_A, 0.05) == VoteMark.EARLY
    assert arena.vote(arena.serve(1), Kind.WIN_A, 5.0) == VoteMark.WAITING
    assert (arena.board().votes, arena.waiting_sessions(), arena.admit_due()) == (0, [1], 0)
    arena.now += 24 * 3600
    assert arena.admit_due() == 1
    assert arena.board().votes == 1
    assert arena.vote(arena.serve(1), Kind.WIN_A, 5.0) == NO_MARK
    arena = MemoryArena(CONTENT, Defence("blind"), 1)
    pair = arena.serve(1)
    arena.vote(pair, Kind.WIN_A, 5.0)
    assert arena.finish(1) == [pair]
    arena.vote(pair._replace(serial=arena.serve(1).serial), Kind.WIN_A, 5.0)
    assert arena.board().votes == 1
    assert arena.board(defence=Defence("none", blind=False)).votes == 2
    arena = MemoryArena(CONTENT, ALL, 1)
    arena.vote(arena.serve(1), Kind.WIN_A, 5.0)
    arena.now += 25 * 3600
    arena.alarms.append(None)
    assert arena.admit_due() == 0
    assert arena.admit_due(explained=True) == 1


def test_limits_and_looks_take_time():
    bare = attack_seconds(Defence("bare"), 10, 300, 1000, 1.5)
    assert bare < attack_seconds(Defence("shown", shown=True), 10, 300, 1000, 1.5)
    assert bare < attack_seconds(Defence("gate", gate=True), 10, 300, 1000, 1.5)


def test_an_attack_is_measured_under_every_defence():
    found = run_attack(attack_named("skip farming"), SMALL, 1)
    assert list(found) == [defence.name for defence in DEFENCES]
    sent = found["all"].target_votes
    assert sent == SMALL.attack_votes
    assert found["blind votes"].counted_votes == sent
    assert found["all"].counted_votes == found["ageing"].counted_votes == 0
    assert found["all"].gain_before == 0 < found["blind votes"].gain_before
    assert found["blind votes"].honest_held == 0 < found["ageing"].honest_held
    assert not found["blind votes"].honest_excluded


def test_ranks_are_compared_with_ranges():
    arena = MemoryArena(CONTENT, Defence("blind"), 1)
    for number in range(60):
        arena.vote(arena.serve(FIRST_ACCOUNT_CODE + number), Kind.WIN_A, 5.0)
    board = arena.board()
    ranks = rank_among(board, CONTENT.models)
    assert sorted(ranks.values()) == list(range(1, 10))
    assert out_of_range(ranks, board, CONTENT.models) == 0
    assert out_of_range({"argent-70b": 20}, board, CONTENT.models) == 1
