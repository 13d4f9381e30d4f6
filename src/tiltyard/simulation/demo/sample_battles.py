"""Sample battles."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
from scipy.special import expit

from tiltyard.core.battles import Battle, Outcome

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
