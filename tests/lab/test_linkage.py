"""Linkage of releases in simulated arenas, at a small size; ``python -m lab.linkage`` runs the full one."""

import numpy as np
import pytest

from lab.linkage import (
    CLASS_VOTES,
    JOINS,
    LinkageWorld,
    SeenTable,
    find_sittings,
    joined_voters,
    main,
    matched_voters,
    rejoined_voters,
    release_twice,
    shuffled_again,
    split_width_ratios,
)

WORLD = LinkageWorld(1800)


@pytest.fixture(scope="module")
def two():
    return release_twice(WORLD)


def test_joining_two_releases_links_no_more_voters_than_chance(two):
    """What a join maps to the right voter, it maps as well if the second table is drawn by lot."""
    n = len(two.cast)
    for join in JOINS:
        by_lot = [joined_voters(two.first, shuffled_again(two.second, seed), join) for seed in range(4)]
        allowed = max(by_lot) + 4.0 * (max(*by_lot, 1.0 / n) / n) ** 0.5
        assert joined_voters(two.first, two.second, join) <= allowed, join


def test_positions_patterns_and_sittings_link_voters(two):
    # The attack works: on tables in the same order, as exports were before, it finds every voter.
    tables = [
        SeenTable(ballots.a, ballots.prompt, ballots.session, np.arange(ballots.session.max() + 1))
        for ballots in two.ballots
    ]
    assert joined_voters(*tables, "row") == 1.0
    battles, prompts = (matched_voters(two, prompts=known) for known in (False, True))
    assert [number for _, number in battles.values()] == [1800 // 6 // votes for votes in CLASS_VOTES]
    for votes in CLASS_VOTES[2:]:
        assert battles[votes][0] == battles[votes][1]
    assert battles[1][0] < prompts[1][0]
    found = find_sittings(two)
    assert found[100][0] == found[100][1]
    assert found[1][0] < 0.5 * found[1][1]


@pytest.mark.slow
def test_two_releases_undo_a_split_and_a_split_makes_intervals_narrow(two):
    whole, heavy = rejoined_voters(two, 10)
    assert heavy == sum(votes > 10 for votes in two.cast.values())
    assert whole > 0.8 * heavy
    assert split_width_ratios(WORLD, (10,), 1)[10] < 0.95


def test_the_page_names_its_command(tmp_path):
    page = tmp_path / "linkage.md"
    assert main(["--votes", "1800", "--worlds", "1", "--out", str(page)]) == 0
    assert "--votes 1800" in page.read_text()
