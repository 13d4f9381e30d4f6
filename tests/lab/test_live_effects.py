"""Effects of length and waiting in simulated live arenas, at a small size; ``python -m lab.live_effects`` runs the full one."""

from dataclasses import replace

import pytest

from lab import live_effects
from lab.effect_studies import EffectSettings, study_effects
from lab.live_effects import effect_cells, main
from lab.live_prompts import HOSTILE_LIVE
from lab.live_worlds import LiveWorldSettings


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kind", "all"])
def test_a_planted_effect_is_covered_and_what_is_not_there_is_not_claimed(name):
    settings = EffectSettings(LiveWorldSettings(models=5, **HOSTILE_LIVE[name]), votes=600, length=120.0)
    results = [study_effects(settings, seed) for seed in range(6)]
    for which in (0, 1):
        assert sum(bool(one.covered(which)) for one in results) >= 5
    assert sum(bool(one.claimed(0)) for one in results) >= 4
    assert all(0.0 < one.truth[0] < 120.0 and abs(one.truth[1]) < 1.0 for one in results)


def test_the_command_prints_a_row_for_each_kind_of_world(monkeypatch, capsys, tmp_path):
    cells = [(name, replace(settings, votes=50)) for name, settings in effect_cells()[-1:]]
    monkeypatch.setattr(live_effects, "effect_cells", lambda: cells)
    monkeypatch.setattr(live_effects, "lab_folder", lambda: tmp_path)
    main(["--worlds", "1"])
    assert "| kind, large effects | 50 |" in capsys.readouterr().out
