"""The study of voters flags programs, and hardly anybody else."""

import numpy as np

from lab.voter_study import BOTS, StudiedCrowd, flagged_by, main
from tiltyard.core.integrity.voter_tests import VoterTest


def test_programs_are_flagged_and_people_are_not():
    crowd = StudiedCrowd(np.random.default_rng(1), 8)
    kind, done = crowd.sessions(200, 12)
    bots = crowd.bots(BOTS["100 × 3, 5 covering, identical timing"])
    flagged = flagged_by(done.joined(bots), 8)
    assert {session for session, by in flagged.items() if VoterTest.IN_STEP in by} == set(range(200, 300))
    assert not [session for session in flagged if session < 200 and kind[session] in (0, 3, 4)]


def test_the_page_has_a_row_for_each_kind_of_voter_and_attack(tmp_path):
    page = tmp_path / "voters.md"
    assert (
        main(["--seeds", "1", "--honest", "1", "--sizes", "60x12", "--timed", "50", "--out", str(page)]) == 0
    )
    text = page.read_text()
    assert all(f"| {name} |" in text for name in ("careful", *BOTS))
