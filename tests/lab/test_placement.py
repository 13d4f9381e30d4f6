"""Placements by a judge in simulated worlds, at a small size; `just place-study` runs the full one."""

from dataclasses import replace

import numpy as np
import pytest

from lab.placement import BIAS_LOGITS, FIRST
from lab.placement_studies import PlacementSettings, SimulatedJudge, study_placement
from support.sizes import sized

SMALL = PlacementSettings(replace(FIRST, models=8, prompts=60), votes=1500, judged=200)


def studied(worlds, bias_sd, **changes):
    settings = replace(SMALL, judge=SimulatedJudge(bias_sd=bias_sd), **changes)
    return [study_placement(settings, seed) for seed in range(worlds)]


def mean(results, name):
    return float(np.mean([getattr(result, name) for result in results]))


@pytest.mark.slow(but_every=2)
@pytest.mark.parametrize("bias_sd", BIAS_LOGITS)
def test_differences_to_a_placed_model_hold_the_truth(bias_sd):
    results = studied(sized(4, 8), bias_sd)
    assert mean(results, "covered") >= 0.88
    assert mean(results, "false_range") <= 0.1
    assert mean(results, "unplaced") == mean(results, "judge_only") == 0.0


@pytest.mark.slow
def test_pooling_more_battles_and_few_opponents_change_a_placement():
    results = studied(sized(3, 5), 0.5)
    assert mean(results, "pooled_covered") < 0.7 < mean(results, "covered")
    plain, more = studied(3, 0.0), studied(3, 0.0, judged_between=600)
    assert mean(more, "half_width") < 0.8 * mean(plain, "half_width")
    results = studied(2, 0.0, opponents=4, judged=60, own_prompts=True)
    assert mean(results, "judge_only") == 1.0
    assert results[0].bias_sd is results[0].places is results[0].false_range is None
