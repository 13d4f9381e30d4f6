"""The study of agreement at a small size; `just agreement-study` runs it at full size."""

import numpy as np
import pytest

from lab.agreement_study import PANELS, RATERS, PanelSize, measure_coverage, simulate_panel
from support.sizes import sized


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("kind", RATERS)
def test_intervals_of_the_smallest_panel_hold_the_truth(kind):
    """200 panels: an interval that covers 0.93 stays above 0.88 in all but one of a thousand seeds; this one is fixed."""
    found = measure_coverage(RATERS[kind], PANELS[0], sized(80, 200), seed=4)
    assert min(found.held[:2]) >= 0.9


def test_missing_votes_and_lazy_raters_are_really_missing():
    rng = np.random.default_rng(1)
    whole = simulate_panel(RATERS["agree well"], PanelSize(6, 30, 4, 3), rng)
    thinned = simulate_panel(RATERS["agree well"], PanelSize(6, 30, 4, 3, missing=0.2, lazy=0.6), rng)
    assert len(whole.item) == 30 * 6 * 3
    assert len(thinned.item) < 0.7 * len(whole.item)
    counts = np.bincount(thinned.rater)
    assert counts[5] < counts[0]
