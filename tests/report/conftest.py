"""Pages without the extra that draws charts."""

from importlib.util import find_spec

import pytest

from tiltyard.report import board_charts


@pytest.fixture
def no_plots(monkeypatch):
    monkeypatch.setattr(board_charts, "find_spec", lambda name: None if name == "altair" else find_spec(name))
