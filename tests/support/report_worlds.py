"""Runs whose reports are looked at: each shows something that a page must bear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from support.sizes import sized
from tiltyard.core.battles import Battle
from tiltyard.core.ratings import BradleyTerry, Elo
from tiltyard.files import open_battles, write_battles
from tiltyard.runs.battle_rating import RateSettings
from tiltyard.runs.run_folder import write_run
from tiltyard.simulation.demo.demo_roster import demo_battles

CATEGORIES = ("chat", "code", "creative", "hard prompts", "law", "mathematics", "multi-turn", "translation")
MODELS = tuple(f"{name}-{size}b" for size in (4, 12, 32, 70) for name in (
    "alder", "birch", "cedar", "doum", "elm", "fir", "gum", "hazel", "ilex", "juniper", "kauri", "larch", "maple", "neem", "oak",
))  # fmt: skip
#: The models of the report ``many``.
MANY = MODELS[: sized(32, 60)]
LONG_NAMES = tuple(f"organisation-{k}/assistant-large-instruct-{40 + k}b-preview-26-11-17" for k in range(8))


def drawn_battles(
    models: Sequence[str], categories: Sequence[str], n: int, *, seed: int = 0
) -> Iterator[Battle]:
    """Battles of models of known strength, which differs a little between categories; the same for a seed."""
    rng = np.random.default_rng(seed)
    strength = np.linspace(1.2, -1.2, len(models))[:, None] + rng.normal(
        0, 0.4, (len(models), len(categories))
    )
    for k in range(n):
        category = int(rng.integers(len(categories)))
        a, b = (int(one) for one in rng.choice(len(models), 2, replace=False))
        odds = 1.0 / (1.0 + np.exp(strength[b, category] - strength[a, category]))
        tied, won = rng.random() < 0.12, rng.random() < odds
        yield Battle.from_dict(
            {
                "model_a": models[a],
                "model_b": models[b],
                "winner": "tie" if tied else "model_a" if won else "model_b",
                "category": categories[category],
                "question_id": f"{category}-{k % 150}",
                "voter": f"v{int(rng.integers(120))}",
            }
        )


def _renamed(names: Sequence[str]) -> Iterator[Battle]:
    battles = list(demo_battles(1500))
    called = dict(zip(sorted({one.model_a for one in battles}), names, strict=True))
    return (replace(one, model_a=called[one.model_a], model_b=called[one.model_b]) for one in battles)


def _two_islands() -> Iterator[Battle]:
    """Eight models, and four others that never met them; one that only won."""
    yield from demo_battles(900)
    yield from drawn_battles(MODELS[:4], CATEGORIES[:1], 400)
    yield Battle.from_dict({"model_a": "only-wins", "model_b": MODELS[0], "winner": "model_a"})


#: By name: battles and settings.
REPORTS = {
    "plain": (lambda: demo_battles(3000), RateSettings(arena="Demo arena", n_bootstraps=20)),
    "many": (
        lambda: drawn_battles(MANY, CATEGORIES[:: sized(2, 1)], 40_000),
        RateSettings(by="category", arena="Many models"),
    ),
    "elo": (
        lambda: demo_battles(1500),
        RateSettings(Elo(n_permutations=20, n_bootstraps=20), arena="Elo run"),
    ),
    "pair": (
        lambda: drawn_battles(("first-model", "second-model"), CATEGORIES[:1], 300),
        RateSettings(arena="Two models"),
    ),
    "names": (lambda: _renamed(LONG_NAMES), RateSettings(arena="Names of 60 characters")),
    "islands": (_two_islands, RateSettings(BradleyTerry(), arena="Not comparable")),
}


def write_report(name: str, folder: Path, size: int | None = None) -> Path:
    """Write the run of this name, from its first ``size`` battles; returns its folder."""
    make, settings = REPORTS[name]
    battles = list(islice(make(), size))
    write_battles(folder / f"{name}.jsonl", battles)
    write_run(folder / name, [open_battles(folder / f"{name}.jsonl")], settings)
    return folder / name
