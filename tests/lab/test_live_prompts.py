"""Intervals and claims where voters write their own prompts, at a small size; `just live-prompts` runs the full one."""

from dataclasses import replace

import numpy as np
import pytest

from lab.live_prompt_studies import LivePromptSettings, study_live_prompts
from lab.live_prompts import (
    HOSTILE_LIVE,
    LivePages,
    interval_cells,
    lane_cells,
    live_prompts_page,
    main,
    one_look_cells,
    watched_cells,
)
from lab.live_worlds import LiveWorldSettings

SMALL = LivePromptSettings(LiveWorldSettings(models=6), sizes=(300, 700))


def studied(arenas, name, every=0, **changes):
    world = replace(SMALL.world, **HOSTILE_LIVE[name], **changes)
    settings = replace(SMALL, world=world, every=every)
    return [study_live_prompts(settings, seed) for seed in range(arenas)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kind", "one-prompt", "own-kinds", "all"])
def test_intervals_hold_the_truth(name):
    results = studied(8, name)
    for at in range(2):
        looks = [one.looks[at] for one in results]
        assert np.mean([look.ratings_covered for look in looks]) >= 0.87
        assert np.mean([look.differences_covered for look in looks]) >= 0.87
        assert all(look.refused == 0.0 for look in looks)


@pytest.mark.slow
def test_votes_are_not_independent():
    looks = [one.looks[-1] for one in studied(8, "own-kinds", voters=20)]
    covered, unclustered = (
        np.mean([getattr(look, name) for look in looks])
        for name in ("ratings_covered", "unclustered_covered")
    )
    assert unclustered < covered - 0.05


@pytest.mark.slow(but="one-prompt")
@pytest.mark.parametrize("name", ["one-prompt", "all"])
def test_equal_models_are_not_called_settled(name):
    assert sum(one.settled_false for one in studied(4, name, every=100, equal=True)) <= 1


def test_one_page_has_all_kinds_of_worlds(monkeypatch, tmp_path):
    def small(cell):
        few = tuple(size // 10 for size in cell.settings.sizes)
        settings = replace(cell.settings, sizes=few, every=0)
        return replace(cell, settings=settings, results=[study_live_prompts(settings, 0)] * 2)

    kinds = (interval_cells, one_look_cells, watched_cells, lane_cells)
    page = live_prompts_page(LivePages(*(list(map(small, cells()[:2])) for cells in kinds)), "the command")
    assert "by `the command`" in page
    assert sum(line.startswith("| kind |") for line in page.splitlines()) == 3
    assert "| equal, popular | 0 of 2 | 0 of 2 | 0 of 2 |" in page
    assert "| equal, categories, lanes | 2 | 0.00% | – |" in page
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path))
    main(["--arenas", "0", "--watched-arenas", "0", "--lane-arenas", "0", "--out", str(tmp_path / "page.md")])
    assert (tmp_path / "page.md").read_text().startswith("# Live prompts, measured\n")
