"""What simulated voters prefer and say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np

from tiltyard.core.battles import Kind
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
