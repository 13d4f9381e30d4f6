"""What an attacked arena holds: the demo's models, prompts and answers, and copies of a model that somebody enters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from tiltyard.simulation.demo.demo_roster import RETIRED, demo_prompts, demo_world
from tiltyard.simulation.demo.model_answers import demo_answers

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ArenaContent:
    """Models with their true strengths, and every response by model and prompt."""

    models: tuple[str, ...]
    prompts: tuple[str, ...]
    #: In logits: how good a model is, and how much better on a prompt.
    strength: Floats
    effect: Floats
    responses: dict[tuple[int, int], str]
    #: By prompt: whether its responses are texts.
    is_text: tuple[bool, ...]
    #: Models that are never served.
    retired: frozenset[int]

    def characters(self, model: int, prompt: int) -> int:
        """The length of a response, for the time that a look takes; 0 for what is no text."""
        return len(self.responses[model, prompt]) if self.is_text[prompt] else 0

    def with_copies(self, model: int, copies: int) -> ArenaContent:
        """The same with near-copies of a model's texts, entered as so many other models."""
        responses = dict(self.responses)
        for copy in range(copies):
            for prompt in np.flatnonzero(self.is_text).tolist():
                text = self.responses[model, prompt]
                responses[len(self.models) + copy, prompt] = text + "\n" + "." * (copy + 1)
        names = tuple(f"{self.models[model]}-copy-{copy + 1}" for copy in range(copies))
        return replace(
            self,
            models=self.models + names,
            strength=np.concatenate([self.strength, np.repeat(self.strength[model], copies)]),
            effect=np.concatenate([self.effect, np.repeat(self.effect[[model]], copies, axis=0)]),
            responses=responses,
        )


@cache
def demo_content() -> ArenaContent:
    """The demo arena's, whose last model is to be pushed."""
    world, prompts = demo_world(), demo_prompts()
    numbers = {prompt.name: number for number, prompt in enumerate(prompts)}
    return ArenaContent(
        models=world.models,
        prompts=tuple(numbers),
        strength=world.strength,
        effect=world.effect,
        responses={
            (world.models.index(answer.model), numbers[answer.prompt_id]): answer.response
            for answer in demo_answers()
        },
        is_text=tuple(prompt.kind == "text" for prompt in prompts),
        retired=frozenset({world.models.index(RETIRED)}),
    )
