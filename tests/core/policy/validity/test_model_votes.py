"""What votes say of one model: the same from its own votes as from all."""

from dataclasses import replace

import numpy as np
import pytest

from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.validity.model_record import (
    VoteColumns,
    build_standing,
    opponent_records,
    prompt_records,
    score_of,
)
from tiltyard.core.policy.validity.pair_floors import challenges_of


def test_a_standing_of_one_models_votes_knows_that_model_as_one_of_all_votes_does():
    rng = np.random.default_rng(5)
    models, prompts, n = 6, 9, 400
    a = rng.integers(models, size=n)
    b = (a + rng.integers(1, models, size=n)) % models
    votes = VoteColumns(a, b, rng.integers(prompts, size=n), rng.integers(7, size=n))
    whole = _standing(models, prompts, votes)
    for model in range(models):
        mine = (votes.a == model) | (votes.b == model)
        alone = _standing(
            models,
            prompts,
            VoteColumns(*(getattr(votes, name)[mine] for name in ("a", "b", "prompt", "kind"))),
        )
        assert opponent_records(alone, model) == opponent_records(whole, model)
        assert prompt_records(alone, model) == prompt_records(whole, model)
        assert challenges_of(alone, model) == challenges_of(whole, model)
        assert [one.deficit is None for one in opponent_records(alone, model) if one.model == 5] in (
            [True],
            [],
        )


def test_without_votes_there_is_no_score():
    none = np.empty(0, dtype=np.int64)
    standing = _standing(3, 2, VoteColumns(none, none, none, none))
    assert prompt_records(standing, 0) == ()
    assert [(one.model, one.score, one.expected, one.deficit) for one in opponent_records(standing, 0)] == [
        (1, None, pytest.approx(0.4285, abs=1e-3), 1.0),
        (2, None, pytest.approx(0.3600, abs=1e-3), None),
    ]
    assert score_of(opponent_records(standing, 0)[0].record) is None


def _standing(models, prompts, votes):
    answered = np.ones((models, prompts), dtype=bool)
    enabled = np.arange(models) < models - 1
    unknown = Strengths.unknown(models)
    strengths = replace(unknown, rating=1500.0 + 50.0 * np.arange(models))
    return build_standing(
        Policy(),
        [f"m{k}" for k in range(models)],
        [f"p{k}" for k in range(prompts)],
        answered=answered,
        enabled=enabled,
        votes=votes,
        strengths=strengths,
    )
