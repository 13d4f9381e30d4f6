"""The plan: every question once, in canonical order, under names that depend on nothing they should not."""

from __future__ import annotations

import itertools
import shutil

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from support.arranged import arrange, read_lines, write_lines
from tiltyard.core.judging.question import QuestionPurpose
from tiltyard.errors import BadConfig

CHECKS = {"identical": 1, "truncated": 1, "garbage": 1, "repeats": 2, "planted": 0}
#: Nobody answers there, and nobody is asked.
NOWHERE = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1"}


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """Two judges, two dimensions, checks, and one response missing."""
    arranged = arrange(
        tmp_path_factory.mktemp("planned"),
        models=["zeta", "alpha", "mid"],
        judge=NOWHERE,
        checks=CHECKS,
        modes={"pilot": {"judges": ["judge-1", "judge-2"], "prompts": "all"}},
    )
    rows = read_lines(arranged.folder / "answers.jsonl")
    write_lines(arranged.folder / "answers.jsonl", rows[:-1])
    return arranged.prepared().plan


def naive(plan):
    """The canonical order, spelled out."""
    for section in plan.sections:
        dimension = section.rubric.dimension
        for prompt in plan.prompts:
            there = [model for model in ("zeta", "alpha", "mid") if (model, prompt.prompt_id) in plan.answers]
            for a, b in map(sorted, itertools.combinations(there, 2)):
                for judge in ("judge-1", "judge-2"):
                    yield judge, dimension, prompt.prompt_id, a, b, QuestionPurpose.MATCH
                    yield judge, dimension, prompt.prompt_id, b, a, QuestionPurpose.MATCH
        for question in section.checks:
            yield (
                question.judge,
                dimension,
                question.prompt_id,
                question.first,
                question.second,
                question.purpose,
            )


def seen(question):
    return (
        question.judge,
        question.dimension,
        question.prompt_id,
        question.first,
        question.second,
        question.purpose,
    )


def test_every_question_is_there_once_in_canonical_order(planned):
    questions = list(planned.questions())
    assert [seen(one) for one in questions] == list(naive(planned))
    assert len(questions) == len(planned) == len({one.id for one in questions})
    # Three pairs on three prompts and one on the last, two orders, two judges, two dimensions; five checks each.
    assert len(planned) == 2 * 2 * (2 * (3 * 3 + 1) + 5)
    assert list(planned._rubrics) == ["factuality", "calibration"]
    for name in ("factuality", "calibration"):
        assert list(planned.dimension(name)) == [one for one in questions if one.dimension == name]


@given(st.integers(1, 200))
def test_shards_cover_the_plan_without_gap_or_overlap(planned, size):
    shards = list(planned.shards("run", 0, size))
    assert [shard.first for shard in shards] == list(range(0, len(planned), size))
    assert all(one.last == other.first for one, other in itertools.pairwise(shards))
    assert shards[-1].last == len(planned)
    assert [shard.index for shard in shards] == list(range(len(shards)))


def facts(arranged, **options):
    plan = arranged.prepared(**options).plan
    return plan.sha256, [(one.id, plan.key(one)) for one in plan.questions()]


@pytest.fixture
def tournament(tmp_path):
    return arrange(
        tmp_path / "here",
        judge=NOWHERE,
        checks=CHECKS,
        modes={"pilot": {"prompts": {"n": 3}}},
    )


def changed(arranged, section, **fields):
    document = yaml.safe_load(arranged.config.read_text())
    return arranged.change(**{section: {**document[section], **fields}})


@pytest.mark.parametrize(
    "fields",
    [
        {"batch": True},
        {"concurrency": 3},
        {"retries": 0, "timeout_seconds": 5, "requests_per_minute": 10},
        {"family": "acme"},
        {"api_key_env": "OTHER_KEY"},
    ],
    ids=["batch", "concurrency", "patience", "family", "key"],
)
def test_how_a_judge_is_called_changes_no_name(tournament, fields):
    before = facts(tournament)
    assert facts(changed(tournament, "judge", **fields)) == before


def test_another_order_of_the_roster_asks_the_same_in_another_order(tournament):
    _, before = facts(tournament)
    document = yaml.safe_load(tournament.config.read_text())
    tournament.change(entrants=[*reversed(document["entrants"])])
    _, after = facts(tournament)
    assert after != before
    assert set(after) == set(before)


def test_files_prices_and_ratings_change_no_name(tournament, tmp_path):
    before = facts(tournament)
    tournament.change(
        prices={"judge-1": {"input": 1, "output": 2}},
        elo={"n_perms": 3, "shuffle_seed": 9},
        ratings={"lean": 0.6, "seed": 3},
        shard_size=7,
        budget_usd=3,
    )
    assert facts(tournament) == before
    rows = read_lines(tournament.folder / "answers.jsonl")
    write_lines(tournament.folder / "answers.jsonl", rows[::-1])
    assert facts(tournament) == before
    shutil.move(tournament.folder, tmp_path / "elsewhere")
    tournament.folder = tmp_path / "elsewhere"
    assert facts(tournament) == before


@pytest.mark.parametrize(
    "fields",
    [
        {"pilot_model": "judge-2"},
        {"max_tokens": 99},
        {"form": "text"},
        {"form": "tool"},
        {"options": {"temperature": 0}},
        {"base_url": "http://127.0.0.1:10/v1"},
        {"provider": "anthropic", "base_url": "http://127.0.0.1:9"},
    ],
    ids=["model", "max_tokens", "text", "tool", "options", "address", "provider"],
)
def test_what_a_judge_is_asked_changes_the_plan_and_every_key(tournament, fields):
    sha256, before = facts(tournament)
    other, after = facts(changed(tournament, "judge", **fields))
    assert other != sha256
    assert not {key for _, key in before} & {key for _, key in after}


def test_prompt_caching_is_part_of_the_request_where_it_must_be_asked_for(tournament):
    changed(tournament, "judge", provider="anthropic", base_url="http://127.0.0.1:9")
    sha256, before = facts(tournament)
    other, after = facts(changed(tournament, "judge", prompt_cache="5m"))
    assert other != sha256
    assert not {key for _, key in before} & {key for _, key in after}
    # Nobody asks OpenAI for it: it caches by itself.
    changed(tournament, "judge", provider="openai", base_url="http://127.0.0.1:9/v1", prompt_cache="off")
    plain = facts(tournament)
    assert facts(changed(tournament, "judge", prompt_cache="5m")) == plain


def test_one_changed_response_changes_its_own_questions_only(tournament):
    sha256, before = facts(tournament)
    rows = read_lines(tournament.folder / "answers.jsonl")
    prompt = tournament.prepared().plan.prompts[0].prompt_id
    mine = next(row for row in rows if row["prompt_id"] == prompt and row["model"] == "model-1")
    mine["response"] += " And so on."
    write_lines(tournament.folder / "answers.jsonl", rows)
    other, after = facts(tournament)
    assert other != sha256
    plan = tournament.prepared().plan
    touched = {
        one.id for one in plan.questions() if one.prompt_id == prompt and "model-1" in (one.first, one.second)
    }
    assert {one for (one, old), (_, new) in zip(before, after, strict=True) if old != new} == touched & dict(
        before
    ).keys()


@pytest.mark.parametrize("field", ["text", "gold"])
def test_a_changed_prompt_or_gold_answer_changes_the_plan(tournament, field):
    sha256, before = facts(tournament)
    rows = read_lines(tournament.folder / "prompts.jsonl")
    for row in rows:
        row[field] += "!"
    write_lines(tournament.folder / "prompts.jsonl", rows)
    if field == "text":
        with pytest.raises(BadConfig, match="answered a different"):
            facts(tournament)
        answers = read_lines(tournament.folder / "answers.jsonl")
        asked = {row["prompt_id"]: row["text"] for row in rows}
        write_lines(
            tournament.folder / "answers.jsonl",
            [{**one, "prompt": asked[one["prompt_id"]]} for one in answers],
        )
    other, after = facts(tournament)
    assert other != sha256
    assert [name for name, _ in before] == [name for name, _ in after]
    assert {key for _, key in before} != {key for _, key in after}


def test_what_nobody_is_shown_changes_nothing(tournament):
    before = facts(tournament)
    rows = read_lines(tournament.folder / "prompts.jsonl")
    for row in rows:
        row.update(category="sums", language="en", note="mine")
    write_lines(tournament.folder / "prompts.jsonl", rows)
    assert facts(tournament) == before


def test_a_changed_rubric_changes_its_dimension_only(tournament):
    text = "# version: v1\nPrefer the response that is right.\n"
    (tournament.folder / "mine.txt").write_text(text)
    tournament.change(rubrics={"mine": {"path": "mine.txt"}, "factuality": {}})
    sha256, before = facts(tournament)
    (tournament.folder / "mine.txt").write_text(text.replace("v1", "v2").replace("right", "true"))
    other, after = facts(tournament)
    assert other != sha256
    plan = tournament.prepared().plan
    differ = [
        one.dimension
        for one, old, new in zip(plan.questions(), before, after, strict=True)
        if old[1] != new[1]
    ]
    assert differ == ["mine"] * sum(one.dimension == "mine" for one in plan.questions())


def test_dimensions_in_another_order_are_another_plan(tournament):
    """Shards are stretches of numbers: they would else mean other questions."""
    sha256, before = facts(tournament)
    tournament.change(rubrics={"calibration": {}, "factuality": {}})
    other, after = facts(tournament)
    assert other != sha256
    assert sorted(before) == sorted(after)


def test_a_pilot_takes_so_many_prompts_of_each_source_in_bank_order(tmp_path):
    arranged = arrange(
        tmp_path,
        models=2,
        prompts=143,
        judge=NOWHERE,
        modes={"pilot": {"prompts": {"sizes": {"s0": 8, "s1": 24, "s2": 18}}, "seed": 3}},
    )
    bank = read_lines(tmp_path / "prompts.jsonl")
    plan = arranged.prepared().plan
    names = [prompt.prompt_id for prompt in plan.prompts]
    assert len(names) == 50
    assert names == [row["prompt_id"] for row in bank if row["prompt_id"] in set(names)]
    counts = [sum(prompt.source == source for prompt in plan.prompts) for source in ("s0", "s1", "s2")]
    assert counts == [8, 24, 18]
    # The headline takes them all.
    assert len(arranged.prepared("headline").plan.prompts) == 143
    arranged.change(modes={"pilot": {"prompts": {"sizes": {"s0": 8, "s1": 24, "s2": 18}}, "seed": 4}})
    assert [prompt.prompt_id for prompt in arranged.prepared().plan.prompts] != names


def test_a_source_with_too_few_prompts_is_named(tmp_path):
    modes = {"pilot": {"prompts": {"sizes": {"s0": 99}}}}
    ran = arrange(tmp_path, judge=NOWHERE, modes=modes).call("plan", "tournament.yaml")
    assert ran.code == 2
    assert "'s0'" in ran.err


def test_the_limit_keeps_the_first_pairs_of_each_dimension(tournament):
    whole, limited = tournament.prepared().plan, tournament.prepared(limit_pairs=2).plan
    for one, other in zip(whole.sections, limited.sections, strict=True):
        assert list(other.matches) == list(one.matches)[:2]
