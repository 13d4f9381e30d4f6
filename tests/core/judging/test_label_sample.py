"""Matches drawn for people: every stratum is drawn from, evenly, and small ones join their neighbours."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tiltyard.core.battles.outcome import JUDGE_LABELS, Label
from tiltyard.core.judging.label_sample import MIN_STRATUM_LABEL_COUNT, draw_labelled
from tiltyard.errors import BadOption


def _draw(counts, count, seed=0):
    labels = [label for label, size in counts.items() for _ in range(size)]
    return labels, draw_labelled([f"m{k}" for k in range(len(labels))], labels, count, seed)


def test_strata_follow_doubt_and_doubt_is_asked_more():
    counts = {Label.WIN: 600, Label.LEAN: 200, Label.TIE: 100, Label.INCONSISTENT: 100}
    labels, sample = _draw(counts, 100)
    assert [stratum.labels for stratum in sample.strata] == [(label,) for label in counts]
    assert [stratum.matches for stratum in sample.strata] == list(counts.values())
    assert sum(stratum.chosen for stratum in sample.strata) == len(set(sample.places)) == 100
    shares = [stratum.chosen / stratum.matches for stratum in sample.strata]
    assert all(share > shares[0] for share in shares[1:])
    for place, own in zip(sample.places, sample.stratum, strict=True):
        assert labels[place] in sample.strata[own].labels


@pytest.mark.parametrize("count", [20, 50, 200])
def test_no_stratum_has_too_few_labels(count):
    for seed in range(20):
        sizes = np.random.default_rng(seed).integers(0, 300, 4)
        counts = dict(zip(JUDGE_LABELS, sizes.tolist(), strict=True))
        if sum(counts.values()) < 20:
            continue
        _, sample = _draw(counts, count)
        assert len(sample.places) == min(count, sum(counts.values()))
        if len(sample.strata) > 1:
            assert all(one.chosen >= MIN_STRATUM_LABEL_COUNT for one in sample.strata)
        assert all(one.chosen <= one.matches for one in sample.strata)
        assert sum(one.matches for one in sample.strata) == sum(counts.values())


def test_every_match_of_a_stratum_is_as_likely():
    drawn = Counter()
    for seed in range(400):
        drawn.update(_draw({Label.WIN: 40, Label.TIE: 40}, 40, seed)[1].places)
    _, sample = _draw({Label.WIN: 40, Label.TIE: 40}, 40)
    for own, stratum in enumerate(sample.strata):
        chance = stratum.chosen / stratum.matches
        counts = np.array([drawn[40 * own + k] for k in range(40)])
        assert np.abs(counts / 400 - chance).max() < 4.5 * np.sqrt(chance * (1 - chance) / 400)


def test_too_few_matches_or_labels_are_refused():
    with pytest.raises(BadOption):
        _draw({Label.WIN: 19}, 20)
    with pytest.raises(BadOption):
        _draw({Label.WIN: 100}, 19)
