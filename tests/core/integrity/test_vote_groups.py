from __future__ import annotations

import numpy as np
import pytest

from tiltyard.core.integrity import vote_groups
from tiltyard.core.integrity.vote_groups import (
    VOTE_GROUPS,
    RecentTable,
    VoteGrouping,
    VoterOrigin,
    group_flags,
)

UNKNOWN = VoterOrigin()


def named(bits):
    (inside,) = group_flags(np.array([bits]))
    return [name for name, member in zip(VOTE_GROUPS, inside, strict=True) if member]


def test_a_vote_is_in_the_groups_of_its_session_its_seconds_and_its_hour():
    grouping = VoteGrouping()
    found = ["new-voters" in named(grouping.vote(7, 0.0, None, UNKNOWN)) for _ in range(12)]
    assert found == [True] * 10 + [False] * 2
    assert "new-voters" in named(grouping.vote(8, 0.0, None, UNKNOWN))
    grouping = VoteGrouping()
    for _ in range(5):
        grouping.skip(7)
    found = ["skipping-voters" in named(grouping.vote(7, 0.0, None, UNKNOWN)) for _ in range(6)]
    assert found == [True] * 4 + [False] * 2
    grouping = VoteGrouping()
    assert "quick-votes" in named(grouping.vote(7, 0.0, 4.9, UNKNOWN))
    assert "quick-votes" not in named(grouping.vote(7, 0.0, 5.0, UNKNOWN))
    assert "quick-votes" not in named(grouping.vote(7, 0.0, None, UNKNOWN))
    grouping = VoteGrouping()
    for hour, expected in ((0, "hours-0-6"), (6, "hours-6-12"), (13, "hours-12-18"), (47, "hours-18-24")):
        found = named(grouping.vote(7, hour * 3600.0, None, UNKNOWN))
        assert found[0] == "all"
        assert [name for name in found if name.startswith("hours")] == [expected]


def test_memory_is_bounded_and_active_sessions_are_kept(monkeypatch):
    monkeypatch.setattr(vote_groups, "_REMEMBERED_DEED_COUNT", 12)
    grouping = VoteGrouping()
    for _ in range(10):
        grouping.vote(7, 0.0, None, UNKNOWN)
    for session in range(10, 20):
        grouping.vote(session, 0.0, None, UNKNOWN)
    assert "new-voters" not in named(grouping.vote(7, 0.0, None, UNKNOWN))
    for session in range(30, 54):
        grouping.vote(session, 0.0, None, UNKNOWN)
    assert "new-voters" in named(grouping.vote(7, 0.0, None, UNKNOWN))
    assert sum(len(array) for name, array in grouping.saved().items() if name.endswith("keys")) <= 24


def test_what_is_saved_and_restored_goes_on():
    grouping = VoteGrouping()
    for _ in range(8):
        grouping.vote(7, 0.0, None, UNKNOWN)
    for _ in range(6):
        grouping.skip(8)
    from_there = VoterOrigin(network=5)
    for session in range(20, 23):
        grouping.vote(session, 0.0, None, from_there)
    again = VoteGrouping.restored(grouping.saved())
    for session in (7, 7, 7, 8, 8):
        assert again.vote(session, 0.0, None, from_there) == grouping.vote(session, 0.0, None, from_there)


def test_a_network_is_watched_from_its_fifth_session_on():
    grouping = VoteGrouping()

    def groups(session, network):
        found = named(grouping.vote(session, 0.0, None, VoterOrigin(network=network)))
        return [name for name in found if name.startswith("shared")]

    # Further votes of the same sessions do not make it shared.
    assert [groups(session, 6) for session in (1, 2, 3, 4, 1, 2, 3, 4)] == [[]] * 8
    assert groups(5, 6) == ["shared-networks-3"]
    assert groups(1, 6) == ["shared-networks-3"]
    assert groups(9, 7) == []


def test_a_language_has_its_group_or_belongs_to_the_others():
    grouping = VoteGrouping()
    for language, expected in (("de", "language-de"), ("pt", "other-languages"), (None, None)):
        found = named(grouping.vote(7, 0.0, None, VoterOrigin(language=language)))
        assert [name for name in found if "language" in name] == ([] if expected is None else [expected])


@pytest.mark.parametrize("unmerged", [1, 3, 1_000])
def test_it_is_a_dictionary_that_forgets_what_is_old(monkeypatch, unmerged):
    monkeypatch.setattr(vote_groups, "_UNMERGED_COUNT", unmerged)
    random, table = np.random.default_rng(1), RecentTable()
    lately, before = {}, {}
    for step in range(400):
        if step % 90 == 89:
            table.age()
            lately, before = {}, lately
        if step % 70 == 69:
            table = RecentTable.restored(table.saved())
        key = int(random.integers(60)) * 2**56
        assert table.get(key) == lately.get(key, before.get(key, (0.0, 0.0)))
        lately[key] = (float(step), -float(step))
        table.put(key, lately[key])
    assert table.saved()["lately_keys"].tolist() == sorted(lately)
