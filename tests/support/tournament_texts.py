"""Configurations to read in tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiltyard.settings.tournament_config import TournamentConfig, load_config

LEAST = """\
entrants: [{entrant_id: heron}, {entrant_id: wren}]
prompts: {bank_path: prompts.jsonl}
answers: answers.jsonl
rubrics: {factuality: , calibration: {}}
"""


def config_of(folder: Path, more: str = "", least: str = LEAST, **overrides: Any) -> TournamentConfig:
    path = folder / "tournament.yaml"
    path.write_text(least + more, encoding="utf-8")
    return load_config(path, {name.replace("__", "."): value for name, value in overrides.items()})
