"""Tournaments arranged for tests: files on disk, and the command run as its own process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from support.command import Ran, run
from tiltyard.tournaments.tournament_run import PreparedRun, RunRequest, prepare_run

DIMENSIONS = ("factuality", "calibration", "clinical_utility")
#: The paid server's own prices, in dollars for a million tokens.
PRICES = {
    "input": 3,
    "output": 15,
    "cache_write_5m": 3.75,
    "cache_write_1h": 6,
    "cache_read": 0.3,
    "batch": 0.5,
}
NO_CHECKS = {"identical": 0, "truncated": 0, "garbage": 0, "repeats": 0, "planted": 0}


@dataclass
class Arranged:
    """A folder with a configuration, a bank and answers."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "tournament.yaml"

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "tiltyard", *map(str, arguments)]

    def environ(self, home: str = "home") -> dict[str, str]:
        # Compiled modules are kept, so that the many starts of a test are quick.
        out = {"DATABASE_URL", "PYTHONDONTWRITEBYTECODE"}
        kept = {name: value for name, value in os.environ.items() if name not in out}
        own = {"TILTYARD_HOME": str(self.folder / home), "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"}
        return kept | own | self.environment

    def start(self, *arguments: object, home: str = "home") -> subprocess.Popen[bytes]:
        """The command in its own process group, output thrown away."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environ(home),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def piped(self, *arguments: object, home: str = "home") -> subprocess.Popen[str]:
        """The command in its own process group, output kept."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environ(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self, *arguments: object, home: str = "home", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environ(home),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    def call(self, *arguments: object, home: str = "home", watched: bool = False) -> Ran:
        """The command in this process."""
        with contextlib.chdir(self.folder), patch.dict(os.environ, self.environ(home), clear=True):
            return run(*arguments, watched=watched)

    def done(self, *arguments: object, home: str = "home") -> Ran:
        """The command in this process, which must succeed."""
        ran = self.call(*arguments, home=home)
        assert ran.code == 0, (ran.code, ran.err)
        return ran

    def change(self, **sections: Any) -> Arranged:
        """Write the configuration anew, with some sections replaced; ``None`` takes one out."""
        document = {**yaml.safe_load(self.config.read_text()), **sections}
        document = {name: value for name, value in document.items() if value is not None}
        self.config.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
        return self

    def document(self, name: str, out: str = "out") -> Any:
        """A JSON document of a run."""
        return json.loads((self.folder / out / name).read_bytes())

    def verdicts(self, out: str = "out") -> list[dict[str, Any]]:
        """Every question of a run with what became of it."""
        files = sorted((self.folder / out / "questions").iterdir())
        return [row for path in files for row in read_lines(path)]

    def questions(self, *options: object, home: str = "home") -> list[dict[str, Any]]:
        """What the plan says would be asked."""
        self.done("plan", self.config, "--questions", "questions.jsonl", *options, home=home)
        return read_lines(self.folder / "questions.jsonl")

    def prepared(self, mode: str = "pilot", *, home: str = "home", **options: Any) -> PreparedRun:
        with contextlib.chdir(self.folder), patch.dict(os.environ, self.environ(home), clear=True):
            return prepare_run(RunRequest(config_path=self.config, mode=mode, **options), asking=False)


def arrange(
    folder: Path,
    *,
    models: int | list[str] = 3,
    prompts: int = 4,
    dimensions: int = 2,
    judge: dict[str, Any] | None = None,
    **sections: Any,
) -> Arranged:
    """Write a tournament of invented answers."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"model-{k}" for k in range(models)] if isinstance(models, int) else models
    bank = [
        {
            "prompt_id": f"p{k:04d}",
            "text": f"What is {k} times {k + 1}?",
            "source": f"s{k % 3}",
            "gold": str(k * (k + 1)),
        }
        for k in range(prompts)
    ]
    answers = [
        {
            "prompt_id": one["prompt_id"],
            "prompt": one["text"],
            "model": name,
            "response": f"{name} says of {one['text']} that it is {k * 7 % 31}, and gives a reason for it. "
            * 2,
        }
        for one in bank
        for k, name in enumerate(names)
    ]
    write_lines(folder / "prompts.jsonl", bank)
    write_lines(folder / "answers.jsonl", answers)
    document = {
        "entrants": [{"entrant_id": name} for name in names],
        "prompts": {"bank_path": "prompts.jsonl"},
        "answers": "answers.jsonl",
        "rubrics": {name: {} for name in DIMENSIONS[:dimensions]},
        "judge": {"pilot_model": "judge-1", "headline_model": "judge-1", **(judge or {})},
        "checks": NO_CHECKS,
        "elo": {"n_perms": 10, "k_factor_sweep": [16]},
        "ratings": {"n_bootstraps": 10},
        "prices": {"judge-1": PRICES},
        **sections,
    }
    arranged = Arranged(folder)
    arranged.config.write_text(yaml.safe_dump(document, sort_keys=False))
    return arranged


@contextlib.contextmanager
def killing(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill the process and its group at the end, with SIGKILL."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)
