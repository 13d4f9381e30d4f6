"""The configuration of a placement: the judge settings for one new model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from tiltyard.settings.config_section import ConfigSection, Count, default_if_empty, validate_section
from tiltyard.settings.tournament_sections import (
    CachesSection,
    ChecksSection,
    EloSection,
    GenerateSection,
    JudgeDefaults,
    Prices,
    RatingsSection,
)
from tiltyard.settings.yaml_file import read_yaml


class PlacementConfig(ConfigSection):
    """The sections of a tournament's configuration that a placement uses; the rest is given as options."""

    judge: Annotated[JudgeDefaults, default_if_empty({})] = JudgeDefaults()
    generate: GenerateSection | None = None
    checks: Annotated[ChecksSection, default_if_empty({})] = ChecksSection()
    elo: Annotated[EloSection, default_if_empty({})] = EloSection()
    ratings: Annotated[RatingsSection, default_if_empty({})] = RatingsSection()
    caches: Annotated[CachesSection, default_if_empty({})] = CachesSection()
    prices: Prices | None = None
    shard_size: Count = 500


def load_placement(path: Path | None) -> PlacementConfig:
    """Read the file, or return the defaults if there is none."""
    return PlacementConfig() if path is None else validate_section(PlacementConfig, read_yaml(path), {})


def with_absolute_paths(document: dict[str, Any], old: Path) -> dict[str, Any]:
    """Make the paths of a document absolute, because it will be written to another folder."""

    def absolute(path: str | None) -> str | None:
        return None if path is None else str((old / Path(path).expanduser()).resolve())

    document["caches"] = {name: absolute(path) for name, path in document["caches"].items()}
    if isinstance(document["prices"], str):
        document["prices"] = absolute(document["prices"])
    for serving in (document["judge"], document["generate"]):
        if serving and serving["provider"] == "replay":
            serving["base_url"] = absolute(serving["base_url"])
    return document
