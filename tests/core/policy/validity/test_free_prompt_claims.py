"""What is said where voters write their own prompts: rules speak of categories, claims of what was written."""

import numpy as np

from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import Lane, Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.core.policy.validity.consistency import consistency_scores
from tiltyard.core.policy.validity.model_record import (
    VoteColumns,
    build_standing,
    coverage_heatmap,
    quality_findings,
)
from tiltyard.core.policy.validity.pair_floors import floor_of
from tiltyard.core.policy.validity.publication import badge_of, publication_rules
from tiltyard.core.policy.validity.report.report_builder import validity_report

FREE = Policy(free_prompts=True, window=40, evaluated_every=50)
MODELS, CATEGORIES = ("ada", "bob", "cy"), ("any", "coding")


def rows(votes=400, prompts=300, seed=2):
    """A log in which ada wins most; numbers of prompts are far above the number of categories."""
    rng = np.random.default_rng(seed)
    found = [{"event": Event.ENABLE, "a": k} for k in range(3)]
    found += [{"event": Event.RESPOND, "a": k, "prompt": p} for k in range(3) for p in range(2)]
    for serial in range(votes):
        a, b = rng.permutation(3)[:2].tolist()
        matchup = {"a": a, "b": b, "prompt": int(rng.integers(2)), "serial": serial}
        matchup["session"] = int(rng.integers(40))
        lane = int(rng.choice([Lane.EXPLORATION, Lane.CONTENDER]))
        found.append(matchup | {"event": Event.SERVED, "lane": lane, "nominal": lane})
        kind = Kind.WIN_A if (a < b) == (rng.random() < 0.8) else Kind.WIN_B
        found.append(
            matchup | {"event": Event.VOTE, "kind": kind, "free_prompt": int(rng.integers(1, prompts))}
        )
    return [row | {"event": int(row["event"])} for row in found]


def fold(given=None, policy=FREE):
    following = ArenaFold(policy)
    following.widen(MODELS, CATEGORIES)
    following.fold(Events.of(rows() if given is None else given))
    following.rank()
    return following


def test_a_fold_goes_on_from_what_it_saved():
    given = rows()
    one = fold(given)
    half = ArenaFold.restore(fold(given[:301]).save())
    for row in given[301:]:
        half.fold(Events.of([row]))
    assert one.save() == half.save()
    assert ArenaFold.restore(one.save()).standing.prompt_meetings.prompts[0, 1] > 50


def test_the_rules_say_what_is_counted():
    standing = fold().standing
    said = {rule.name: rule for rule in publication_rules(standing)}
    assert "voters wrote" in said["top-pairs"].text
    assert "category coverage" in said["top-coverage"].text
    card = badge_of(standing, 0)
    for rule in (card.established[1], card.stable[0]):
        assert rule.text.startswith("Category")
        assert "2 of 2 categories" in rule.detail


def test_a_thousand_votes_on_one_prompt_are_one_prompt():
    standing = fold([*rows(votes=0), *_votes("hi" for _ in range(1000))]).standing
    floor = floor_of(standing, 0, 1)
    assert (floor.votes, floor.prompts, floor.prompts_needed, floor.met) == (1000, 1, 6, False)
    assert floor.lacking == 5


def test_where_no_category_is_shared_the_rules_say_so():
    standing = Standing(FREE, MODELS, CATEGORIES, np.zeros((3, 2), dtype=bool))
    for model in range(3):
        standing.enable(model)
    _, pairs, coverage = publication_rules(standing)
    assert pairs.detail_values == {"case": "provisional"}
    assert "no category" in coverage.detail


def test_a_category_in_which_everything_is_bad_is_named():
    bad = [row | {"kind": int(Kind.BOTH_BAD)} for row in _votes(range(60))]
    (found,) = [
        one for one in quality_findings(fold([*rows(0), *bad]).standing) if one.name == "both-bad-prompts"
    ]
    assert "category any" in found.text
    assert found.advice


def test_pages_of_one_model_count_categories_and_written_prompts():
    standing = fold().standing
    assert coverage_heatmap(standing, 0).prompts == (0, 1)
    assert consistency_scores(standing) == (None,) * 3  # two categories are too few
    given = standing.vote_log.columns()
    votes = VoteColumns(
        *(given[name].astype(np.int64) for name in ("a", "b")),
        np.zeros(len(standing.vote_log), dtype=np.int64),
        given["kind"].astype(np.int64),
        given["prompt"].astype(np.int64),
    )
    one = build_standing(
        FREE,
        MODELS,
        CATEGORIES,
        answered=np.ones((3, 2), dtype=bool),
        enabled=np.ones(3, dtype=bool),
        votes=votes,
        strengths=Strengths.unknown(3),
    )
    assert np.array_equal(one.prompt_meetings.prompts, standing.prompt_meetings.prompts)


def test_the_report_counts_the_prompts_that_were_explored():
    report = validity_report(Events.of(rows()), MODELS, CATEGORIES, FREE)
    assert report.n_prompts == 2
    assert report.exploration.prompts > 100
    assert report.exploration.models[0].model == "ada"


def _votes(texts):
    """Votes of ada against bob, one after another, on these prompts."""
    numbers = {}
    return [
        {
            "event": int(Event.VOTE),
            "a": 0,
            "b": 1,
            "kind": int(Kind.WIN_A),
            "session": k,
            "free_prompt": numbers.setdefault(text, len(numbers) + 1),
        }
        for k, text in enumerate(texts)
    ]
