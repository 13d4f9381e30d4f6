"""Placing a new model among those that people have ranked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from support.arranged import NO_CHECKS, PRICES, Arranged, read_lines, write_lines
from tiltyard.core.judging.question import QuestionTexts
from tiltyard.core.judging.verdict import VerdictStep
from tiltyard.settings.prices import to_picodollars
from tiltyard.settings.ready_tournaments import recorded_reply
from tiltyard.settings.tournament_config import shipped_rubric
from tiltyard.tournaments.placement import draw_opponents, new_folder, remaining_budget

OPPONENTS = ("elm", "oak", "ash")


def human(prompts=12, opponents=OPPONENTS):
    """Battles of three models or more, with what was asked and answered."""
    rows = []
    for k in range(prompts):
        a, b = opponents[k % len(opponents)], opponents[(k + 1) % len(opponents)]
        rows.append(
            {
                "model_a": a,
                "model_b": b,
                "winner": ("model_a", "model_b", "tie")[k % 3],
                "source": "human",
                "question_id": f"q{k:02d}",
                "prompt": f"What is {k} and {k}?",
                "response_a": f"{a} says {2 * k}.",
                "response_b": f"{b} says {2 * k + 1}.",
            }
        )
    return rows


def answers(prompts=12, model="new"):
    return [
        {
            "prompt_id": f"q{k:02d}",
            "prompt": f"What is {k} and {k}?",
            "model": model,
            "response": f"{model}: it is {2 * k}.",
        }
        for k in range(prompts)
    ]


def settings(server, **sections):
    return {
        "judge": {"provider": "openai", "base_url": server.openai, "headline_model": "judge-1"},
        "checks": NO_CHECKS,
        "elo": {"n_perms": 5, "k_factor_sweep": [16]},
        "ratings": {"n_bootstraps": 10},
        "prices": {"judge-1": PRICES, "author": PRICES},
        **sections,
    }


@pytest.fixture
def yard(tmp_path, billed):
    write_lines(tmp_path / "human.jsonl", human())
    write_lines(tmp_path / "mine.jsonl", answers())
    (tmp_path / "place.yaml").write_text(yaml.safe_dump(settings(billed.server)))
    return Arranged(tmp_path)


def place(yard, *options, model="new", battles="human.jsonl"):
    return yard.call("place", battles, "--model", model, "--output-dir", "out", *options)


@pytest.mark.slow
def test_a_new_model_is_rated_together_with_the_human_battles(yard, billed):
    ran = place(yard, "--config", "place.yaml", "--answers", "mine.jsonl", "--arena", "our town")
    assert ran.code == 0, ran.err
    assert "3 opponents; inputs" in ran.err
    assert billed.since() == 24
    document = yard.document("elo_ratings.json")
    assert document["arena"] == "our town"
    entries = {row["model"]: row for row in document["ratings"]}
    assert set(entries) == {"new", *OPPONENTS}
    assert {name: row["source"] for name, row in entries.items()} == {
        "new": "evaluated",
        **dict.fromkeys(OPPONENTS, "human"),
    }
    assert entries["new"]["placed"] == "judge only"
    assert entries["new"]["rank"] is entries["new"]["rank_low"] is entries["new"]["tier"] is None
    # One of the three lost every human battle, and has no rating.
    assert {entries[name]["rank"] for name in OPPONENTS} == {1, 2, None}
    assert "conditional" in " ".join(ran.out.split())
    assert "(judge only)" in ran.out
    battles = read_lines(yard.folder / "out" / "battles.jsonl")
    assert Counter(one["source"] for one in battles) == {"human": 12, "llm-judge": 12}
    judged = [one for one in battles if one["source"] == "llm-judge"]
    assert all("new" in (one["model_a"], one["model_b"]) for one in judged)
    met = Counter(one["model_a"] for one in judged) + Counter(one["model_b"] for one in judged)
    assert met.pop("new") == 12
    assert max(met.values()) - min(met.values()) <= 2
    yard.done("verify", "out")


SIX = ("ash", "elm", "fir", "oak", "yew", "box")


def many_human_battles():
    rows = []
    for k in range(180):
        a, b = SIX[k % 6], SIX[(k + 1 + k // 36) % 6]
        rows.append(
            {
                "model_a": a,
                "model_b": b,
                "winner": "model_a" if (k * 7) % 10 < 6 else "model_b",
                "source": "human",
                "question_id": f"q{k % 40:02d}",
                "prompt": f"What is {k % 40} and {k % 40}?",
                "response_a": f"{a} says {2 * (k % 40)}.",
                "response_b": f"{b} says {2 * (k % 40) + 1}.",
            }
        )
    return rows


def overall(yard):
    group = yard.document("elo_ratings.json")
    return group, {row["model"]: row for row in group["ratings"]}


@pytest.fixture
def grove(yard):
    """Six models that people rated, and answers of a new one to their forty prompts."""
    write_lines(yard.folder / "human.jsonl", many_human_battles())
    write_lines(yard.folder / "mine.jsonl", answers(40))
    return yard


@pytest.mark.slow
def test_with_enough_opponents_the_judges_bias_is_part_of_the_interval(grove):
    ran = place(grove, "--config", "place.yaml", "--answers", "mine.jsonl")
    assert ran.code == 0, ran.err
    group, entries = overall(grove)
    new, found = entries["new"], group["placement"]
    assert new["placed"] == found["label"] == "judge, bias added"
    assert 1 <= new["rank_low"] <= new["rank"] <= new["rank_high"] <= 7
    assert found["upper_bias_sd"] >= found["bias_sd"] >= 0.0
    assert (found["n_opponents"], found["n_battles"], group["n_battles"]) == (6, 40, 220)
    assert {one["model"] for one in found["differences"]} == set(SIX)
    assert all(one["low"] < one["difference"] < one["high"] for one in found["differences"])
    assert "new ranks between" in " ".join(ran.out.split())
    page = (grove.folder / "out" / "report.html").read_text()
    assert "bias added)</small>" in page
    grove.done("verify", "out")
    grove.done("rate", "human.jsonl", "--out", "people")
    alone = {row["model"]: row for row in grove.document("elo_ratings.json", "people")["ratings"]}
    for name in SIX:
        for field in ("rating", "ci_low", "ci_high", "rank", "rank_low", "rank_high", "n_battles"):
            assert entries[name][field] == alone[name][field]


@pytest.mark.slow
def test_a_model_that_people_have_rated_is_not_moved_by_the_judge(grove):
    write_lines(grove.folder / "mine.jsonl", answers(40, model="oak"))
    ran = place(grove, "--config", "place.yaml", "--answers", "mine.jsonl", model="oak")
    assert ran.code == 0, ran.err
    group, entries = overall(grove)
    assert "placement" not in group
    assert set(entries) == set(SIX)
    assert "already-rated" in {one["name"] for one in group["findings"]}
    grove.done("verify", "out")


@pytest.mark.slow
def test_battles_of_judges_in_the_file_do_not_rate_the_models_that_people_know(grove):
    judged = [
        {**row, "source": "llm-judge", "judge_model": judge, "winner": "model_b"}
        for judge in ("judge-1", "another")
        for row in many_human_battles()[:90]
    ]
    ran = place(grove, "--config", "place.yaml", "--answers", "mine.jsonl", "--output-dir", "first")
    assert ran.code == 0, ran.err
    before = grove.document("elo_ratings.json", "first")
    write_lines(grove.folder / "human.jsonl", [*many_human_battles(), *judged])
    ran = place(grove, "--config", "place.yaml", "--answers", "mine.jsonl")
    assert ran.code == 0, ran.err
    group, entries = overall(grove)
    for row in before["ratings"]:
        if row["model"] != "new":
            assert entries[row["model"]]["rating"] == row["rating"]
    # The same judge's battles tell of its bias; another judge's do not.
    assert before["placement"]["n_battles"] == 40
    assert group["placement"]["n_battles"] == 130
    grove.done("verify", "out")


@pytest.mark.slow
def test_a_recorded_judge_named_by_options_alone(yard, billed):
    """Paths among the options are as seen from where the command is given."""
    rubric = shipped_rubric("preference")
    lines = []
    for k, battle in enumerate(human()):
        steps = (
            (VerdictStep.SECOND, VerdictStep.FIRST) if k % 4 == 0 else (VerdictStep.FIRST, VerdictStep.SECOND)
        )
        for side in "ab":
            mine, theirs = answers()[k]["response"], battle[f"response_{side}"]
            for texts, step in zip(((mine, theirs), (theirs, mine)), steps, strict=True):
                shown = QuestionTexts(battle["prompt"], *texts)
                lines.append(recorded_reply(shown, rubric, step, False, "So it is."))
    write_lines(yard.folder / "replies.jsonl", lines)
    options = ["--provider", "replay", "--base-url", "replies.jsonl", "--judge-model", "recorded"]
    ran = place(yard, "--answers", "mine.jsonl", *options)
    # A response beside itself was never recorded.
    assert ran.code == 3, ran.err
    states = Counter((row["purpose"] == "match", row["state"]) for row in yard.verdicts())
    assert states == {(True, "ok"): 24, (False, "ok"): 4, (False, "provider_error"): 2}
    (yard.folder / "checks.yaml").write_text(yaml.safe_dump({"checks": NO_CHECKS}))
    ran = place(yard, "--answers", "mine.jsonl", "--config", "checks.yaml", *options, "--n", 8)
    assert ran.code == 2
    ran = yard.call(
        "place",
        "human.jsonl",
        "--model",
        "new",
        "--answers",
        "mine.jsonl",
        "--config",
        "checks.yaml",
        *options,
    )
    assert ran.code == 0, ran.err
    [out] = [path for path in (yard.folder / "runs").iterdir() if path.suffix != ".inputs"]
    group = yard.document("elo_ratings.json", f"runs/{out.name}")
    assert next(row for row in group["ratings"] if row["model"] == "new")["rating"] > 1500
    assert billed.since() == 0


@pytest.mark.slow
def test_an_arena_of_conversations(yard, billed):
    fixture = Path(__file__).parents[1] / "files" / "fixtures" / "lmarena_100k.jsonl"
    (yard.folder / "arena.jsonl").write_bytes(fixture.read_bytes())
    rows = [
        {"prompt_id": "c0ffee01", "prompt": "Write a loop.", "model": "new", "response": "for ever: pass"},
        {"prompt_id": "c0ffee02", "prompt": "Un poème", "model": "new", "response": "Peut-être."},
    ]
    write_lines(yard.folder / "mine.jsonl", rows)
    ran = place(yard, "--config", "place.yaml", "--answers", "mine.jsonl", battles="arena.jsonl")
    assert ran.code == 0, ran.err
    assert billed.since() == 4
    human_battles = len(read_lines(fixture))
    sources = Counter(one["source"] for one in read_lines(yard.folder / "out" / "battles.jsonl"))
    assert sources["llm-judge"] == 2
    assert sources["human"] <= human_battles
    yard.done("verify", "out")


def test_battles_without_responses_take_them_from_answers_files(yard, billed):
    bare = [
        {key: value for key, value in row.items() if not key.startswith(("response", "prompt"))}
        for row in human()
    ]
    write_lines(yard.folder / "bare.jsonl", bare)
    ran = place(yard, "--config", "place.yaml", "--answers", "mine.jsonl", battles="bare.jsonl")
    assert ran.code == 2
    assert "bare.jsonl contains" in ran.err
    write_lines(yard.folder / "theirs.jsonl", answers(model="elm"))
    options = ["--answers", "mine.jsonl", "--answers", "theirs.jsonl"]
    ran = place(yard, "--config", "place.yaml", *options, battles="bare.jsonl")
    assert ran.code == 0, ran.err
    assert billed.since() == 24


@pytest.mark.slow
def test_a_new_model_that_answers_by_itself(yard, billed):
    author = {"provider": "openai", "base_url": billed.server.openai, "model": "author"}
    (yard.folder / "place.yaml").write_text(yaml.safe_dump(settings(billed.server, generate=author)))
    write_lines(yard.folder / "mine.jsonl", answers(4))
    ran = place(yard, "--config", "place.yaml", "--answers", "mine.jsonl")
    assert ran.code == 0, ran.err
    # Eight answers, and twelve pairs in both orders.
    assert billed.since() == 8 + 24
    again = place(yard, "--config", "place.yaml", "--answers", "mine.jsonl")
    assert again.code == 0
    assert billed.since() == 8 + 24
    yard.done("verify", "out")


@pytest.mark.slow
def test_answers_and_verdicts_share_one_budget(yard, billed):
    author = {"provider": "openai", "base_url": billed.server.openai, "model": "author", "max_tokens": 100}
    sections = settings(billed.server, generate=author)
    sections["judge"] |= {"max_tokens": 1024}
    (yard.folder / "place.yaml").write_text(yaml.safe_dump(sections))
    budget = "0.08"
    for _ in range(2):
        ran = place(yard, "--config", "place.yaml", "--budget-usd", budget)
        assert ran.code == 0, ran.err
        assert "cover them" in ran.err
        assert 12 < billed.since() < 36
        assert billed.since("picodollars") <= to_picodollars(budget)
    yard.done("verify", "out")


def test_nothing_that_matches_is_told_of(yard, billed):
    write_lines(
        yard.folder / "mine.jsonl", [{**row, "prompt_id": f"x{row['prompt_id']}"} for row in answers()]
    )
    ran = place(yard, "--config", "place.yaml", "--answers", "mine.jsonl")
    assert ran.code == 2
    assert "the 12 prompts" in ran.err
    ran = place(yard, "--config", "place.yaml", "--answers", "mine.jsonl", model="somebody")
    assert ran.code == 2
    assert "somebody has answered" in ran.err
    assert not (yard.folder / "out").exists()


def test_a_judge_must_be_named(yard):
    ran = place(yard, "--answers", "mine.jsonl")
    assert ran.code == 2
    assert "with --judge-model" in ran.err


def test_another_provider_on_the_command_line_does_not_get_the_files_address_and_key(yard):
    sections = settings(
        type("Server", (), {"openai": "http://127.0.0.1:9/v1"}),
    )
    sections["judge"]["api_key_env"] = "MY_KEY"
    (yard.folder / "place.yaml").write_text(yaml.safe_dump(sections))
    yard.environment = {"ANTHROPIC_API_KEY": "", "MY_KEY": "for the other"}
    options = ["--answers", "mine.jsonl", "--provider", "anthropic"]
    ran = place(yard, "--config", "place.yaml", *options)
    assert ran.code == 2
    assert "variable ANTHROPIC_API_KEY" in ran.err


def generating(yard, server, judge=None, **fields):
    """A placement of four battles whose new model answers by the server."""
    author = {"provider": "openai", "base_url": server.openai, "model": "author", **fields}
    sections = settings(server, generate=author)
    sections["judge"] |= judge or {}
    sections["prices"] |= {"ramble": PRICES}
    (yard.folder / "place.yaml").write_text(yaml.safe_dump(sections))
    write_lines(yard.folder / "human.jsonl", human(4, OPPONENTS[:2]))
    return yard


def test_a_placement_that_rates_no_judged_battle_ends_with_code_3(yard, billed):
    """The human battles are rated all the same, and say nothing of the new model."""
    generating(yard, billed.server, {"headline_model": "ramble", "form": "schema"})
    ran = place(yard, "--config", "place.yaml", "--n", 2)
    assert ran.code == 3
    assert "No battle was rated" in ran.err
    assert "use another reply" in ran.err


def test_a_placement_whose_model_answers_nothing_ends_with_code_3(yard, billed):
    generating(yard, billed.server, base_url="http://127.0.0.1:9/v1", retries=0)
    ran = place(yard, "--config", "place.yaml")
    assert ran.code == 3
    assert "connection failed" in ran.err
    assert "Nothing was judged" in ran.err
    assert not (yard.folder / "out").exists()


def test_a_hostile_name_makes_a_harmless_folder():
    for model in ("../../etc/passwd", "a/b\\c", "\x1b[31mred", "x" * 300, "..", "日本"):
        folder = new_folder(model)
        assert folder.parent == Path("runs")
        assert len(folder.name) < 120
        assert not set(folder.name) & set("/\\\x1b")


@given(
    st.dictionaries(
        st.text(max_size=4), st.lists(st.sampled_from("abcde"), min_size=1, unique=True), max_size=30
    ),
    st.integers(1, 40),
    st.integers(0, 3),
)
def test_opponents_are_drawn_once_for_each_prompt_and_evenly(candidates, n, seed):
    drawn = draw_opponents(candidates, n, seed)
    assert len(drawn) == min(n, len(candidates))
    assert len({prompt for prompt, _ in drawn}) == len(drawn)
    assert all(opponent in candidates[prompt] for prompt, opponent in drawn)
    shuffled = {prompt: names[::-1] for prompt, names in reversed(candidates.items())}
    assert draw_opponents(shuffled, n, seed) == drawn
    # Drawing fewer is the beginning of drawing more.
    assert draw_opponents(candidates, n + 5, seed)[: len(drawn)] == drawn


@given(st.integers(2, 6), st.integers(0, 60), st.integers(0, 5))
def test_where_all_have_answered_all_no_opponent_is_met_more_often_than_another(models, prompts, seed):
    names = [f"m{k}" for k in range(models)]
    met = Counter(
        opponent for _, opponent in draw_opponents({f"p{k}": names for k in range(prompts)}, prompts, seed)
    )
    counts = [met[name] for name in names]
    assert max(counts) - min(counts) <= 1


@given(st.integers(0, 10**15), st.integers(0, 10**13) | st.none())
def test_what_is_left_of_a_budget_is_never_more_than_there_was(cap, spent):
    budget = cap / 10**12
    left = to_picodollars(remaining_budget(budget, spent))
    assert 0 <= left <= max(to_picodollars(budget) - (spent or 0), 0)
    assert remaining_budget(None, spent) is None
