"""The invented arena: its models and prompts, the quality of each answer, and what simulated voters prefer and say."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Final, Literal

import numpy as np
from scipy.special import expit

from tiltyard.core.battles import Battle, Kind, Outcome
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
#: How often two poor answers are voted both_bad.
_BOTH_BAD_PROBABILITY = 0.35
#: Points that judges add to models whose answers are long and polite.
_POLITE = {"brioche-large": 45.0, "ember-8b": 60.0}

_Tag = Literal[
    "accurate", "clear", "well-written", "follows-instructions", "concise", "wrong", "off-topic", "too-long"
]
#: Reasons for votes: tags, and an optional comment.
REMARKS: Final[tuple[tuple[tuple[_Tag, ...], str | None], ...]] = (
    (("accurate", "clear"), "It shows the steps, so I could check them."),
    (("concise",), None),
    (("well-written",), "I would send this one."),
    (("wrong",), "Both got the sum wrong."),
    (("off-topic",), "Neither did what was asked."),
    (("follows-instructions",), None),
    (("too-long",), "Nice, but nobody asked for a lecture."),
)
#: A report about a matchup.
COMPLAINT: Final = ("broken", "The second response seems to be cut off at the end.")

#: Invented models: strength in points, and how long their answers run.
_MODELS = {
    "argent-70b": (135, 2100),
    "brioche-large": (120, 1500),
    "cormorant-2": (95, 1900),
    "dunlin-pro": (60, 900),
    "ember-8b": (0, 1300),
    "fennel-mini": (-45, 700),
    "gannet-3b": (-150, 1000),
    "heron-1b": (-260, 600),
}
_CATEGORIES = ("writing", "code", "maths", "advice")
_LANGUAGES = ("en", "en", "en", "fr", "de")
_PROMPT_COUNT = 120
_VOTER_COUNT = 150
_START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


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


@dataclass(frozen=True, slots=True, eq=False)
class VoterPreference:
    """The outcome of a matchup, by names. ``None``: this voter cannot judge it."""

    world: World
    #: Kinds of responses that these voters can judge.
    kinds: frozenset[str]

    def __call__(self, left: str, right: str, prompt: str, rng: np.random.Generator) -> Kind | None:
        if not {left, right} <= set(self.world.models) or prompt not in _numbers():
            return None
        a, b, p = self.world.models.index(left), self.world.models.index(right), _numbers()[prompt]
        if demo_prompts()[p].kind not in self.kinds:
            return None
        if level_of(a, p) == level_of(b, p) == AnswerLevel.POOR and rng.random() < _BOTH_BAD_PROBABILITY:
            return Kind.BOTH_BAD
        return self.world.vote(a, b, p, rng)


@cache
def _numbers() -> dict[str, int]:
    return {prompt.name: k for k, prompt in enumerate(demo_prompts())}


def human_preference() -> VoterPreference:
    """People look, listen and try, and disagree a little."""
    return VoterPreference(demo_world(), frozenset({"text", "image", "audio", "app"}))


def judge_preference() -> VoterPreference:
    """Judges read text only; they like what is long and polite, and what stands on the left."""
    world = demo_world()
    more = np.array([_POLITE.get(name, 0.0) for name in world.models]) / POINTS_PER_LOGIT
    kept = {name: getattr(world, name) for name in ("models", "effect", "effect_sd", "both_bad")}
    return VoterPreference(
        World(strength=world.strength + more, ties=0.08, position_bias=0.3, **kept), frozenset({"text"})
    )


def demo_battles(n: int = 3000, seed: int = 7) -> Iterator[Battle]:
    """Votes in an invented arena: prompts matter, long answers please, sides matter a little."""
    rng = np.random.default_rng(seed)
    names = list(_MODELS)
    strength = np.array([points for points, _ in _MODELS.values()]) * np.log(10.0) / 400.0
    words = np.array([length for _, length in _MODELS.values()])
    effect = rng.normal(0.0, 0.5, (len(names), _PROMPT_COUNT))
    prompt_length = rng.lognormal(0.0, 0.4, _PROMPT_COUNT)
    for position in range(n):
        a, b = rng.choice(len(names), 2, replace=False)
        p = int(rng.integers(_PROMPT_COUNT))
        length_a, length_b = (int(words[k] * prompt_length[p] * rng.lognormal(0.0, 0.3)) + 40 for k in (a, b))
        longer = (length_a - length_b) / (length_a + length_b)
        d = strength[a] - strength[b] + effect[a, p] - effect[b, p] + 0.8 * longer + 0.05
        yield Battle(
            model_a=names[a],
            model_b=names[b],
            winner=_outcome(float(d), rng),
            source="human",
            question_id=f"q{p:03}",
            dimension="overall",
            category=_CATEGORIES[p % len(_CATEGORIES)],
            language=_LANGUAGES[p % len(_LANGUAGES)],
            voter=f"v{int(rng.integers(_VOTER_COUNT)):03}",
            time=_START + timedelta(minutes=7 * position),
            position=position,
            extra={"length_a": length_a, "length_b": length_b},
        )


def _outcome(d: float, rng: np.random.Generator) -> Outcome:
    other = rng.random()
    if other < 0.06:
        return Outcome.BOTH_BAD
    if other < 0.20:
        return Outcome.TIE
    return Outcome.MODEL_A if rng.random() < expit(d) else Outcome.MODEL_B
