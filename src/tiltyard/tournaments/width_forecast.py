"""Forecasts interval widths from an earlier run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tiltyard.core.judging.power_analysis import ExpectedPrecision, detectable_difference, scale_pilot_width
from tiltyard.errors import BrokenArtifact
from tiltyard.foundation.local_files import read_regular
from tiltyard.report.run_documents import PilotForecast


def pilot_expectation(folder: Path, planned: ExpectedPrecision | None) -> dict[str, PilotForecast]:
    """By dimension: the pilot's mean half-width, scaled to the planned number of prompts.

    ``detectable_difference`` assumes that the errors of two models are equal and independent: √2 times one
    half-width.
    """
    if planned is None:
        return {}
    forecast: dict[str, PilotForecast] = {}
    path = folder / "elo_ratings.json"
    try:
        for name, group in _groups(path).items():
            interval = group["interval"]
            widths = [
                (entry["ci_high"] - entry["ci_low"]) / 2.0
                for entry in group["ratings"]
                if entry["ci_low"] is not None and entry["ci_high"] is not None
            ]
            if interval is None or not widths:
                continue
            if interval["clusters"] == "prompt" and interval["n_clusters"] > 1:
                forecast[name] = _carried(sum(widths) / len(widths), interval["n_clusters"], planned.prompts)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BrokenArtifact(f"{path}: not the ratings of a tournament") from None
    return forecast


def _carried(width: float, then: int, now: int) -> PilotForecast:
    half_width = scale_pilot_width(width, then, now)
    return {
        "pilot_prompts": then,
        "half_width": half_width,
        "detectable": detectable_difference(2.0**0.5 * half_width, now),
    }


def _groups(path: Path) -> dict[str, Any]:
    """The groups of an earlier run's ratings, as they stand in the file."""
    try:
        return dict(json.loads(read_regular(path))["groups"])
    except FileNotFoundError:
        raise BrokenArtifact(f"{path.parent} has no {path.name}: name the folder of a finished run") from None
    except OSError as error:
        raise BrokenArtifact(f"{path}: cannot be read: {error.strerror or error}") from None
