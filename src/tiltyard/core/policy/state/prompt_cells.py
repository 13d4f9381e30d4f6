"""Cells of model and prompt: each model's results on each prompt, and where votes are missing.

The tally is the source of truth; everything else here is derived from it, from the responses and
from each model's floor, and is updated incrementally so that a choice need not recount.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.foundation.arrays import Bools, Ints

#: The result of a vote for one model: the last axis of a tally.
WIN, LOSS, TIE, BOTH_BAD = range(4)
#: Added to a result in the recent votes if a judge also called both responses bad.
BOTH_BAD_FLAG_OFFSET = 4
#: The result of each `Kind` without its flag for the model on the left; for the other, wins and losses are swapped.
_LEFT = {
    Kind.WIN_A: WIN,
    Kind.WIN_B: LOSS,
    Kind.TIE: TIE,
    Kind.BOTH_BAD: BOTH_BAD,
    Kind.LEAN_A: WIN,
    Kind.LEAN_B: LOSS,
    Kind.INCONSISTENT: TIE,
}
LEFT_RESULTS = np.array([_LEFT[kind.plain] for kind in Kind])
#: Whether a vote of each `Kind` has a judge's both-bad flag.
FLAGGED_KINDS = np.array([kind.flagged for kind in Kind])

#: What few attempts add to the need of a cell in deficit: enough to break ties, but negligible compared
#: with the other terms. Without it the contender band, whose floor is higher, would fill its empty cells last.
FEW_ATTEMPTS_WEIGHT = 0.001


class PromptCells:
    """Tallies of every model on every prompt, with derived deficits."""

    def __init__(self, policy: Policy, answered: Bools) -> None:
        models, prompts = answered.shape
        self._policy = policy
        #: Which model has a response to which prompt.
        self.answered = answered.copy()
        #: Wins, losses, ties and both_bad of each model on each prompt.
        self.tally = np.zeros((models, prompts, 4), dtype=np.int32)
        self.enabled = np.zeros(models, dtype=bool)
        #: Decisive votes that fill a cell of this model: more in the contender band.
        self.floor = np.full(models, policy.prompt_floor, dtype=np.int64)
        self.refresh()

    def refresh(self) -> None:
        """Recompute everything derived from the tally: O(models × prompts)."""
        models, prompts = self.answered.shape
        playing = self.answered & self.enabled[:, None]
        #: Enabled models that have answered each prompt.
        self.n_playing = playing.sum(axis=0)
        #: Cells that count for coverage: answered, and another enabled model has answered too.
        self.eligible = self.answered & (self.n_playing - playing > 0)
        #: By pair: prompts that both have answered, if both are enabled; the diagonal is a model with itself.
        self.shared = _shared(playing)
        #: How useful a vote on the cell is: 1 in deficit, else 1/(1 + attempts); −∞ if it cannot be served.
        #: Among cells in deficit, those with fewer attempts come first by a small margin.
        self.need = np.full((models, prompts), -np.inf, dtype=np.float32)
        self.short = np.zeros((models, prompts), dtype=bool)
        self.n_eligible = np.zeros(models, dtype=np.int64)
        self.n_filled = np.zeros(models, dtype=np.int64)
        self.n_exhausted = np.zeros(models, dtype=np.int64)
        #: The largest need of each model.
        self.best = np.full(models, -np.inf)
        for model in range(models):
            self.refresh_model(model)

    def refresh_model(self, model: int) -> None:
        """Recompute one model after its floor or its tally has changed."""
        tally, policy, floor = self.tally[model], self._policy, int(self.floor[model])
        decisive = tally[:, WIN] + tally[:, LOSS]
        attempts = decisive + tally[:, TIE] + tally[:, BOTH_BAD]
        eligible = self.eligible[model]
        short = eligible & (decisive < floor) & (attempts < policy.patience * floor)
        filled = eligible & (decisive >= policy.prompt_floor)
        exhausted = eligible & ~filled & (attempts >= policy.patience * policy.prompt_floor)
        self.short[model] = short
        self.n_eligible[model] = eligible.sum()
        self.n_filled[model] = filled.sum()
        self.n_exhausted[model] = exhausted.sum()
        servable = eligible & self.enabled[model]
        few = 1.0 / (1.0 + attempts)
        self.need[model] = np.where(servable, np.where(short, 1.0 + FEW_ATTEMPTS_WEIGHT * few, few), -np.inf)
        self.best[model] = self.need[model].max(initial=-np.inf)

    def enable(self, model: int, *, now: bool) -> None:
        """Enable this model, or disable it."""
        self.enabled[model] = now
        answered = self.answered[model]
        self.n_playing[answered] += 1 if now else -1
        playing = self.answered[:, answered] & self.enabled[:, None]
        self.shared[model] = self.shared[:, model] = playing.sum(axis=1) if now else 0
        self.refresh_model(model)
        self._prompts_changed(np.flatnonzero(answered & (self.n_playing <= 1 + now)))

    def respond(self, model: int, prompt: int, *, present: bool) -> None:
        """Record a model's response to a prompt, or its withdrawal."""
        if self.answered[model, prompt] == present:
            return
        if self.enabled[model]:
            step = 1 if present else -1
            self.answered[model, prompt] = True
            both = self.enabled & self.answered[:, prompt]
            self.n_playing[prompt] += step
            self.shared[model, both] += step
            self.shared[both, model] = self.shared[model, both]
        self.answered[model, prompt] = present
        self._prompts_changed(np.array([prompt]))

    def _prompts_changed(self, prompts: Ints) -> None:
        """Recompute eligibility after responses on these prompts came or went."""
        answered = self.answered[:, prompts]
        others = self.n_playing[prompts] - (answered & self.enabled[:, None])
        eligible = answered & (others > 0)
        changed = (eligible != self.eligible[:, prompts]).any(axis=1)
        self.eligible[:, prompts] = eligible
        for model in np.flatnonzero(changed).tolist():
            self.refresh_model(model)

    def vote(self, model: int, prompt: int, result: int) -> None:
        """Add a vote for this model on this prompt; ``result`` is WIN, LOSS, TIE or BOTH_BAD."""
        cell = self.tally[model, prompt]
        if not self.eligible[model, prompt]:
            cell[result] += 1
            return
        policy, floor = self._policy, int(self.floor[model])
        wins, losses, ties, both_bad = cell.tolist()
        decisive = wins + losses
        attempts = decisive + ties + both_bad
        was_short = decisive < floor and attempts < policy.patience * floor
        was_filled = decisive >= policy.prompt_floor
        was_exhausted = not was_filled and attempts >= policy.patience * policy.prompt_floor
        cell[result] += 1
        attempts += 1
        decisive += result <= LOSS
        filled = decisive >= policy.prompt_floor
        if filled != was_filled:
            self.n_filled[model] += 1
        exhausted = not filled and attempts >= policy.patience * policy.prompt_floor
        if exhausted != was_exhausted:
            self.n_exhausted[model] += 1 if exhausted else -1
        short = decisive < floor and attempts < policy.patience * floor
        if was_short and not short:
            self.short[model, prompt] = False
        if self.enabled[model]:
            row = self.need[model]
            held, few = row[prompt], 1.0 / (1.0 + attempts)
            row[prompt] = 1.0 + FEW_ATTEMPTS_WEIGHT * few if short else few
            if held >= self.best[model]:
                self.best[model] = row.max()

    def add(self, model: Ints, prompt: Ints, result: Ints) -> None:
        """Add many votes to the tally only; call `refresh` afterwards."""
        cells = (model * self.answered.shape[1] + prompt) * 4 + result
        np.add.at(self.tally.reshape(-1), cells, np.int32(1))

    def set_answered(self, model: Ints, prompt: Ints, present: Bools) -> None:
        """Apply added and withdrawn responses, of which the last counts; call `refresh` afterwards."""
        cells = (model * self.answered.shape[1] + prompt)[::-1]
        places, last = np.unique(cells, return_index=True)
        self.answered.reshape(-1)[places] = present[::-1][last]

    def set_floor(self, model: int, floor: int) -> None:
        """Set this model's floor, because it has joined or left the contender band."""
        if self.floor[model] != floor:
            self.floor[model] = floor
            self.refresh_model(model)

    def widen(self, models: int, prompts: int) -> None:
        """Add more models and prompts, without responses."""
        more_models, more_prompts = models - self.answered.shape[0], prompts - self.answered.shape[1]
        self.answered = np.pad(self.answered, ((0, more_models), (0, more_prompts)))
        self.tally = np.pad(self.tally, ((0, more_models), (0, more_prompts), (0, 0)))
        self.enabled = np.pad(self.enabled, (0, more_models))
        self.floor = np.pad(self.floor, (0, more_models), constant_values=self._policy.prompt_floor)
        self.refresh()

    def under(self, policy: Policy) -> None:
        """Apply other floors and attempt limits; the contender band is empty until models are ranked again."""
        self._policy = policy
        self.floor[:] = policy.prompt_floor
        self.refresh()

    def coverage(self) -> npt.NDArray[np.float64]:
        """Strict prompt coverage: the share of eligible prompts whose floor is filled; NaN if there are none."""
        with np.errstate(invalid="ignore"):
            return self.n_filled / np.where(self.n_eligible > 0, self.n_eligible, np.nan)


def _shared(playing: Bools) -> npt.NDArray[np.int32]:
    """For every two rows, the number of columns that both have."""
    whole = playing.all(axis=1)
    if (playing.any(axis=1) == whole).all():
        return np.outer(whole, whole).astype(np.int32) * np.int32(playing.shape[1])
    packed = np.packbits(playing, axis=1)
    bits = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)
    return np.stack([np.bitwise_count(bits & row).sum(axis=1, dtype=np.int32) for row in bits])
