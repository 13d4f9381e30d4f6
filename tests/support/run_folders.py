"""Run folders: written, forged, damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiltyard.core.battles import Battle
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2
from tiltyard.errors import BrokenArtifact
from tiltyard.files import open_battles, write_battles
from tiltyard.runs.battle_rating import RateSettings
from tiltyard.runs.manifest import (
    BATTLES,
    MANIFEST,
    MANIFEST_HASH,
    file_hash,
    hash_line,
    read_manifest,
    run_identity,
)
from tiltyard.runs.run_folder import write_run, written_files
from tiltyard.runs.run_verification import Verification, verify_run
from tiltyard.simulation.demo.demo_roster import demo_battles

SHORT_ELO = Elo(n_permutations=4, n_bootstraps=4)

SETTINGS = {
    "bradley-terry": RateSettings(n_bootstraps=5),
    "bootstrap": RateSettings(BradleyTerry(interval="bootstrap", n_bootstraps=6), n_bootstraps=6),
    "davidson": RateSettings(BradleyTerry(ties="davidson"), n_bootstraps=3),
    "drop": RateSettings(BradleyTerry(ties="drop", level=0.8)),
    "battles only": RateSettings(BradleyTerry(clusters="battle"), n_bootstraps=4),
    "no interval": RateSettings(BradleyTerry(interval="none")),
    "prior and anchor": RateSettings(BradleyTerry(prior_sd=200, anchor="ember-8b", anchor_rating=1000)),
    "style": RateSettings(BradleyTerry(style=True), style=("length", "position")),
    "by category": RateSettings(by="category", n_bootstraps=3),
    "by category and source": RateSettings(by=("category", "source"), where="model_a is not null"),
    "by source": RateSettings(SHORT_ELO, by="source"),
    "elo": RateSettings(SHORT_ELO, arena="Garden", model="ember-8b"),
    "elo in order": RateSettings(Elo(n_permutations=0)),
    "glicko-2": RateSettings(Glicko2(kernel="plain")),
}


def judged(battle: Battle) -> dict[str, Any]:
    """The battle as a judge's: a row with other fields."""
    row = battle.to_dict()
    return row | {"source": "llm-judge", "judge_model": "judge-1", "mood": {"calm": True}, "turn": 2}


def mixed(n: int = 240) -> list[Battle]:
    """People and one judge; fields that Tiltyard does not know; a model that only judges saw."""
    some = list(demo_battles(n))
    rows = [judged(battle) if k % 3 == 0 else battle.to_dict() for k, battle in enumerate(some)]
    for k in range(0, n, 6):
        rows[k]["model_a"] = "newcomer"
    return [Battle.from_dict(row) for row in rows]


def written(folder: Path, settings: RateSettings, battles: list[Battle] | None = None) -> Path:
    file = folder / "battles.jsonl"
    write_battles(file, mixed() if battles is None else battles)
    write_run(folder / "run", [open_battles(file)], settings)
    return folder / "run"


def copied(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to / "run"))


def rehash(run: Path) -> None:
    """Make every hash fit what is in the folder now."""
    document = json.loads((run / MANIFEST).read_text())
    names = [name for name in written_files(run) if name not in (MANIFEST, MANIFEST_HASH)]
    document["files"] = {name: file_hash(run / name) for name in names}
    write_json(run / MANIFEST, document)
    if document.get("identity") is not None and BATTLES in names:
        with suppress(BrokenArtifact):
            settings = read_manifest(run).settings()
            write_json(
                run / MANIFEST, document | {"identity": run_identity(settings, document["files"][BATTLES])}
            )
    (run / MANIFEST_HASH).write_bytes(hash_line(run))


def write_json(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def edit_json(path: Path, change: Callable[[Any], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    write_json(path, document)


def is_refused(run: Path) -> bool:
    try:
        return not verify_run(run).passed
    except BrokenArtifact:
        return True


def failed(result: Verification) -> list[str]:
    return [check.name for check in result.checks if not check.passed]
