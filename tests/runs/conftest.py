"""Folders that several tests look at are written once, and without what only takes time."""

from contextlib import contextmanager

import pytest

from support.judged_runs import anchored_run, written
from support.run_folders import copied
from tiltyard.runs.run_verification import verify_run


@contextmanager
def quick_pages():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tiltyard.report.board_charts.find_spec", lambda _: None)
        patch.setattr("tiltyard.runs.battle_rating.with_checks", lambda rated: rated)
        yield


@pytest.fixture(autouse=True, scope="module")
def _quick_pages():
    with quick_pages():
        yield


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    """A run with a bit of everything: anchors, two judges, missing responses, every state."""
    folder = tmp_path_factory.mktemp("original")
    with quick_pages():
        run = written(folder, anchored_run(folder))
        assert verify_run(run).exact
    return run


@pytest.fixture
def run(original, tmp_path):
    return copied(original, tmp_path)
