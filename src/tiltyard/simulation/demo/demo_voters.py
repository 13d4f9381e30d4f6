"""What simulated voters prefer and say, and sample battles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final, Literal

import numpy as np
from scipy.special import expit

from tiltyard.core.battles import Battle, Kind, Outcome
from tiltyard.simulation.demo.demo_roster import AnswerLevel, demo_prompts, demo_world, level_of
from tiltyard.simulation.worlds import POINTS_PER_LOGIT, World

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
