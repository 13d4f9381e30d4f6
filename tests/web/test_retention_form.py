"""How long texts are kept, as an operator types it: days, or nothing."""

from datetime import UTC, datetime

import pytest

from tiltyard.arena.content.arenas import Arena
from tiltyard.errors import BadOption
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.pages.operator.settings import read_settings

NAMES = ("live_retention_days", "remark_retention_days", "session_retention_days")


@pytest.mark.parametrize("name", NAMES)
def test_days_are_a_number_or_nothing(name):
    settings = ArenaSettings(kind="live", **{name: 7})
    arena = Arena(1, "arena", "arena", settings, datetime.now(UTC))
    assert read_settings(arena, {name: "30"}) == (None, {name: 30})
    assert read_settings(arena, {name: ""}) == (None, {name: None})
    assert read_settings(arena, {name: "7"}) == (None, {})
    for wrong in ("soon", "0", "-1"):
        with pytest.raises(BadOption, match=name):
            read_settings(arena, {name: wrong})
