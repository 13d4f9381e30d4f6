"""The study of `tiltyard ab` at a small size."""

import numpy as np
import pytest

from lab.ab_study import JUDGES, ab_page, judged_leads, main, stopped
from tiltyard.core.ratings.paired_difference import ABDecision


@pytest.mark.slow(but_every=2)
@pytest.mark.parametrize("kind", JUDGES)
def test_equal_models_are_rarely_told_apart_and_the_better_one_is_found(kind):
    rng = np.random.default_rng(7)
    equal = [stopped(judged_leads(kind, 0.0, 300, rng))[0] for _ in range(20)]
    assert sum(one is not ABDecision.UNDECIDED for one in equal) <= 3
    better = [stopped(judged_leads(kind, 200.0, 1500, rng))[0] for _ in range(10)]
    assert better.count(ABDecision.BETTER) >= 9


def test_the_page_has_both_tables(tmp_path):
    main(["--worlds", "2", "--score-worlds", "5", "--out", str(tmp_path / "ab.md")])
    text = (tmp_path / "ab.md").read_text()
    assert "| uneven prompts | 80 | 0 of 2 |" in text
    assert "| log-normal | " in text
    assert text.count("\n| ") == ab_page(1, 1, "").count("\n| ")
