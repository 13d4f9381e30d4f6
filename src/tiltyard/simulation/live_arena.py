"""A simulated arena in which voters write their own prompts, under the ranking policy."""

from __future__ import annotations

import numpy as np

from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings
from tiltyard.core.policy.state.standing import Standing
from tiltyard.simulation.arena_observers import ExposureObserver
from tiltyard.simulation.live_worlds import LiveWorldSettings, draw_live_world

#: Votes between updates of the ratings, as between the snapshots of an arena.
_RANK_INTERVAL_VOTES = 10


class SimulatedLiveArena:
    """One arena: its world, and the standing that a rater would have."""

    def __init__(self, settings: LiveWorldSettings, seed: int) -> None:
        self.world = draw_live_world(settings, np.random.default_rng([seed, 0]))
        self._voters = np.random.default_rng([seed, 1])
        self._chance = np.random.default_rng([seed, 2])
        policy = Policy(free_prompts=True)
        categories = [f"category-{k}" for k in range(settings.categories)]
        self.standing = Standing(policy, self.world.models, categories)
        self.rater = Rater(RaterSettings(), settings.models)
        self.exposures = ExposureObserver(policy)
        #: Matchups for which a rule was relaxed.
        self.given_up = 0
        for model in range(settings.models):
            self.standing.enable(model)
        self.exposures.roster_changed(self.standing)

    def step(self) -> None:
        """One voter types a prompt, is shown two answers, and votes."""
        standing, prompt = self.standing, self.world.type(self._voters)
        asked = np.arange(len(standing.prompts)) == prompt.category
        choice = choose(standing, self._chance, session=prompt.voter, judgeable=asked)
        a, b = choice.left, choice.right
        self.given_up += bool(choice.given_up)
        standing.serve(a, b, choice.prompt, lane=choice.lane, nominal=choice.nominal, session=prompt.voter)
        kind = self.world.vote(a, b, prompt, self._voters)
        standing.vote(a, b, choice.prompt, kind, prompt.voter, prompt.number)
        self.rater.vote(a, b, kind)
        if standing.votes % _RANK_INTERVAL_VOTES == 0:
            standing.rank(self.rater.strengths(standing.enabled))
        self.exposures.watch(standing)
