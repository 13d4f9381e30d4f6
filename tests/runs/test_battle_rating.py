"""Rating a table: what stands beside its ratings."""

from dataclasses import replace

import numpy as np

from tiltyard.core.battles import Table
from tiltyard.core.ratings import BradleyTerry
from tiltyard.runs.battle_rating import RateSettings, rate_table
from tiltyard.simulate.world_settings import WorldSettings, draw_world_of


def test_votes_to_flip_are_not_counted_where_some_battles_weigh_less():
    rng = np.random.default_rng(1)
    even = draw_world_of(WorldSettings(4, 30, close_top=False), rng).table(400, rng)
    assert rate_table(even, RateSettings(BradleyTerry())).flip is not None
    prompt = even.log().prompt.copy()
    prompt[:200] = prompt[0]
    uneven = Table.from_codes(even.models, replace(even.log(), prompt=prompt))
    limited = rate_table(uneven, RateSettings(BradleyTerry()))
    assert "weight-limited" in {finding.name for finding in limited.board.findings}
    assert limited.flip is None
    assert rate_table(uneven, RateSettings(BradleyTerry(max_share=1.0))).flip is not None
