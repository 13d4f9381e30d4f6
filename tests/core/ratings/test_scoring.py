"""What each kind of outcome counts."""

import numpy as np
import pytest

from tiltyard.core.battles import Kind
from tiltyard.core.ratings.scoring import Scoring


def test_an_outcome_and_its_mirror_count_one_together():
    scores = Scoring(lean=0.8).by_kind()
    assert (scores[Kind.WIN_A], scores[Kind.LEAN_A], scores[Kind.TIE]) == (1.0, 0.8, 0.5)
    assert scores[Kind.WIN_A] + scores[Kind.WIN_B] == scores[Kind.LEAN_A] + scores[Kind.LEAN_B] == 1.0


@pytest.mark.parametrize("scoring", [Scoring(inconsistent=None), Scoring(ties="drop", inconsistent=0.5)])
def test_what_is_left_out_counts_nothing(scoring):
    scores = scoring.by_kind()
    assert np.isnan(scores[Kind.INCONSISTENT])
    assert np.isnan(scores[Kind.TIE]) == (scoring.ties == "drop")
    assert np.isnan(scores[Kind.BOTH_BAD])
