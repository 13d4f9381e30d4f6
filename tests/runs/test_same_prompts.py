"""Prompts whose texts are nearly the same: joined to one cluster, and told."""

import json

import numpy as np
import pyarrow as pa
import pytest

import tiltyard
from support.command import run
from tiltyard.core.battles.repeats import first_of_same
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.files.battle_source import open_data
from tiltyard.files.battle_tables import count_table
from tiltyard.files.read_options import ReadOptions
from tiltyard.runs.run_verification import verify_run

MODELS = [f"model-{k}" for k in range(10)]
WORDS = np.array([f"word{k}" for k in range(2000)])


def texts(rng, intents, prompts):
    """Prompts of a few intents: one word of fourteen differs, and the way they are written."""
    own = rng.choice(WORDS, (intents, 14))
    for k in range(prompts):
        words = own[k % intents].copy()
        words[rng.integers(14)] = rng.choice(WORDS)
        said = " ".join(words)
        yield f"Please {said.upper()}!" if rng.random() < 0.3 else f"{said}?"


def battles(seed, *, intents=40, prompts=120, effect=0.5, n=3000):
    """Models that are equal on average, and differ by intent."""
    rng = np.random.default_rng([3, seed])
    by_intent = rng.normal(0.0, effect, (10, intents))
    a = rng.integers(0, 10, n)
    b = (a + rng.integers(1, 10, n)) % 10
    prompt = rng.integers(0, prompts, n)
    logit = by_intent[a, prompt % intents] - by_intent[b, prompt % intents]
    better = rng.random(n) < 1.0 / (1.0 + np.exp(-logit))
    said = list(texts(rng, intents, prompts))
    return pa.table(
        {
            "model_a": [MODELS[k] for k in a],
            "model_b": [MODELS[k] for k in b],
            "winner": np.where(better, "model_a", "model_b"),
            "question_id": [f"q{k}" for k in prompt],
            "prompt": [said[k] for k in prompt],
        }
    )


def joined(board):
    return [finding.values["prompts"] for finding in board.findings if finding.name == "same-prompts"]


def test_texts_that_are_nearly_the_same_are_found():
    rng = np.random.default_rng(0)
    same = first_of_same(list(texts(rng, 40, 400)))
    np.testing.assert_array_equal(same, np.arange(400) % 40)
    form = (
        "You are a helpful assistant. Answer the next question with a single letter, and with nothing else: "
    )
    asked = [form + " ".join(rng.choice(WORDS, 8)) for _ in range(100)]
    np.testing.assert_array_equal(first_of_same(asked), np.arange(100))
    assert first_of_same(["Hi", "hi!", "one two three", "Hello there"]).tolist() == [0, 0, 2, 3]


def test_they_are_one_prompt_and_told_unless_prompts_are_chosen():
    world = battles(1)
    board, apart = tiltyard.rate(world), tiltyard.rate(world, cluster="prompt")
    assert (board.rated.board.n_clusters, joined(board)) == (40, [80])
    assert (apart.rated.board.n_clusters, joined(apart)) == (120, [])
    assert board.rows[0].high - board.rows[0].low > apart.rows[0].high - apart.rows[0].low
    plain = tiltyard.rate(world.drop_columns("prompt"))
    assert (plain.rated.board.n_clusters, joined(plain)) == (120, [])
    assert [row.high for row in plain.rows] == [row.high for row in apart.rows]


def test_files_groups_and_run_folders_join_the_same(tmp_path):
    rows = battles(1).to_pylist()
    rows = [{**row, "voter": f"v{k}", "language": "en" if k % 2 else "de"} for k, row in enumerate(rows)]
    file = tmp_path / "battles.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = json.loads(run("rate", file, "--out", tmp_path / "run", "--json").out)
    assert ran["interval"]["n_clusters"] == 40
    assert verify_run(tmp_path / "run").exact
    by_language = tiltyard.rate(file, by="language")
    assert [joined(one) for one in (by_language, *by_language.groups.values())] == [[80]] * 3


def test_votes_on_joined_prompts_are_no_repeats():
    rows = [{**row, "voter": "v", "model_a": "a", "model_b": "b"} for row in battles(1, n=400).to_pylist()]
    own = {(row["question_id"], row["winner"]): row for row in rows}
    assert tiltyard.rate(list(own.values()), cluster="prompt").table.repeats == 0
    assert tiltyard.rate(list(own.values())).table.repeats == 0


@pytest.mark.slow
@pytest.mark.parametrize("prompts", [120, 3000])
def test_intervals_hold_for_intents_like_these(prompts):
    held, apart_held, false, apart_false, worlds = [], [], 0, 0, 300
    for seed in range(worlds):
        sources = open_data(battles(seed, prompts=prompts), ReadOptions())
        one, other = count_table(sources, levels=["day"]), count_table(sources)
        result, apart = BradleyTerry()(one), BradleyTerry()(other)
        for found, into in ((result, held), (apart, apart_held)):
            into.append(((found.interval.low <= 1500.0) & (found.interval.high >= 1500.0)).mean())
        false += rank_models(result).above.any()
        apart_false += rank_models(apart).above.any()
    print(
        f"40 intents, {prompts} prompts: held {np.mean(held):.1%}, false {false / worlds:.1%}; "
        f"apart {np.mean(apart_held):.1%}, {apart_false / worlds:.1%}"
    )
    assert np.mean(held) >= 0.93
    assert false <= 0.075 * worlds
