import numpy as np
import pytest

from tiltyard.core.integrity import vote_groups as recent_table
from tiltyard.core.integrity.vote_groups import RecentTable


@pytest.mark.parametrize("unmerged", [1, 3, 1_000])
def test_it_is_a_dictionary_that_forgets_what_is_old(monkeypatch, unmerged):
    monkeypatch.setattr(recent_table, "_UNMERGED_COUNT", unmerged)
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
