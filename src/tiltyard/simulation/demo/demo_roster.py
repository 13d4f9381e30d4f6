"""The models and prompts of the invented arena, and the quality of each answer."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from tiltyard.simulation.worlds import POINTS_PER_LOGIT, World

#: Invented models: strength in points, and the hue by which their pictures and apps differ.
MODELS = {
    "argent-70b": (150, 215),
    "brioche-large": (125, 28),
    "cormorant-2": (90, 190),
    "dunlin-pro": (55, 150),
    "ember-8b": (0, 8),
    "fennel-mini": (-50, 95),
    "gannet-3b": (-150, 260),
    "heron-1b": (-260, 320),
    "jackdaw-classic": (-90, 50),
    "ibis-nano": (-400, 170),
}
#: The retired model, and the newest one.
RETIRED, NEWCOMER = "jackdaw-classic", "ibis-nano"
#: The model for which votes are rigged; the rigging is detected.
PUSHED = "gannet-3b"

_FILES = ("writing", "code", "maths", "advice", "apps")
_PICTURES = {
    "lighthouse": "Draw a lighthouse at night.",
    "sunrise": "Draw mountains at sunrise.",
    "apple": "Draw a red apple on a table.",
    "sailing-boat": "Draw a sailing boat on calm water.",
}
_SOUNDS = {
    "arpeggio": "Play a gentle rising arpeggio in C major.",
    "doorbell": "What does a friendly doorbell sound like?",
    "lullaby": "Play the first bars of a lullaby that nobody has heard before.",
}
#: Ability in points from which an answer is good, or fair.
_GOOD_POINTS, _FAIR_POINTS = 60.0, -95.0
#: The answers are the same whatever the seed of the votes.
_DEMO_SEED = 20_260


class AnswerLevel(enum.IntEnum):
    POOR = 0
    FAIR = 1
    GOOD = 2


@dataclass(frozen=True, slots=True)
class DemoPrompt:
    """What is asked. ``answers`` are texts by level; pictures and sounds are made from their name."""

    name: str
    category: str
    language: str
    kind: str
    text: str
    answers: tuple[str, ...] = ()


@cache
def demo_prompts() -> tuple[DemoPrompt, ...]:
    """Every prompt of the arena."""
    read = [prompt for name in _FILES for prompt in _read(name)]
    drawn = [DemoPrompt(name, "pictures", "en", "image", text) for name, text in _PICTURES.items()]
    played = [DemoPrompt(name, "sound", "en", "audio", text) for name, text in _SOUNDS.items()]
    return (*read, *drawn, *played)


@cache
def demo_world() -> World:
    """The models' strengths, and their effects on each prompt."""
    rng = np.random.default_rng(_DEMO_SEED)
    strength = np.array([points for points, _ in MODELS.values()]) / POINTS_PER_LOGIT
    effect = rng.normal(0.0, 0.4, (len(MODELS), len(demo_prompts())))
    return World(
        tuple(MODELS), strength, effect, 0.4, ties=0.13, both_bad=0.03, position_bias=0.06, lazy=0.05
    )


def level_of(model: int, prompt: int) -> AnswerLevel:
    """How good a model's answer to a prompt is."""
    world = demo_world()
    points = (world.strength[model] + world.effect[model, prompt]) * POINTS_PER_LOGIT
    return (
        AnswerLevel.GOOD
        if points >= _GOOD_POINTS
        else AnswerLevel.FAIR
        if points >= _FAIR_POINTS
        else AnswerLevel.POOR
    )


def _read(name: str) -> list[DemoPrompt]:
    """The prompts of one file: parts that begin with ``===``, each prompt's followed by its three answers."""
    text = files(__package__).joinpath("bank", f"{name}.txt").read_text(encoding="utf-8")
    found: list[DemoPrompt] = []
    parts = [part.partition("\n") for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]]
    for (head, _, asked), *answers in zip(*(parts[k::4] for k in range(4)), strict=True):
        prompt, category, language = head.removeprefix("prompt ").split(" | ")
        kind = "app" if category == "apps" else "text"
        given = {level: body.strip() for level, _, body in answers}
        levels = (given["poor"], given["fair"], given["good"])
        found.append(DemoPrompt(prompt, category, language, kind, asked.strip(), levels))
    return found
