"""What LMArena's files state beside the battles: categories, and counts of style."""

from __future__ import annotations

import json

import pytest

from support.command import run
from tiltyard import rate
from tiltyard.errors import BadBattle
from tiltyard.files import open_battles
from tiltyard.files.battle_tables import count_groups, count_table

COUNTS = {
    "sum_user_tokens": 20,
    "sum_assistant_a_tokens": 30,
    "sum_assistant_b_tokens": 10,
    "turns": 1,
    **{f"header_count_{side}": {"h1": 1, "h2": 2} for side in "ab"},
    "list_count_a": {"ordered": 0, "unordered": 3},
    "list_count_b": {"ordered": 1, "unordered": 0},
    **{f"bold_count_{side}": {"**": 0, "__": 0} for side in "ab"},
}
CRITERIA = dict.fromkeys("abcdefg", True)


def votes(folder, *changes):
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "# Two\n\n- words"}]
    usual = {
        "model_a": "oak",
        "model_b": "elm",
        "winner": "model_a",
        "evaluation_order": 1,
        "category_tag": {},
    }
    usual |= {"conversation_a": talk, "conversation_b": talk, "conv_metadata": COUNTS}
    path = folder / "votes.jsonl"
    rows = ({"id": f"q{k}", **usual, **change} for k, change in enumerate(changes))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return open_battles(path)


@pytest.mark.parametrize(
    ("change", "category"),
    [
        ({}, None),
        ({"is_code": True}, "code"),
        ({"category_tag": {"creative_writing_v0.1": {"creative_writing": True}}}, "creative_writing"),
        ({"category_tag": {"criteria_v0.1": CRITERIA | {"a": False}}}, "hard"),
        ({"category_tag": {"criteria_v0.1": CRITERIA | {"a": False, "b": False}}}, None),
        ({"category_tag": {"if_v0.1": {"if": True, "score": 5}}}, "instruction_following"),
        ({"category_tag": {"math_v0.1": {"math": True}}, "is_code": True}, "code+math"),
        ({"conv_metadata": COUNTS | {"sum_user_tokens": 500}}, "long_query"),
        ({"conv_metadata": COUNTS | {"turns": 2}}, "multi_turn"),
        ({"turn": 3}, "multi_turn"),
        ({"category_tag": "math", "conv_metadata": [1], "turn": None, "is_code": "yes"}, None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_prompt_belongs_to_every_category_whose_condition_it_meets(tmp_path, change, category):
    (battle,) = votes(tmp_path, change).battles()
    assert battle.category == category


def test_a_battle_counts_in_each_of_its_categories(tmp_path):
    source = votes(tmp_path, {"is_code": True}, {"is_code": True, "turn": 2}, {"turn": 2}, {})
    apart = count_groups([source], ["category"])["category"]
    assert {name: table.n_battles for name, table in apart.items()} == {
        "(none)": 1,
        "code": 1,
        "code+multi_turn": 1,
        "multi_turn": 1,
    }
    overlapping = count_groups([source], ["category"], overlapping=True)["category"]
    assert {name: table.n_battles for name, table in overlapping.items()} == {
        "(none)": 1,
        "code": 2,
        "multi_turn": 2,
    }


def test_categories_overlap_unless_somebody_says_otherwise(tmp_path):
    source = votes(tmp_path, {"is_code": True}, {"is_code": True, "turn": 2}, {"turn": 2}, {})
    assert set(rate(source, by="category").groups) == {"(none)", "code", "multi_turn"}
    assert "code+multi_turn" in rate(source, by="category", overlapping=False).groups
    apart = run("rate", tmp_path / "votes.jsonl", "--by", "category", "--no-overlapping")
    assert "code+multi_turn" in apart.out
    assert run("rate", tmp_path / "votes.jsonl", "--by", "category", "--out", tmp_path / "run").code == 0
    assert run("verify", tmp_path / "run").code == 0


def test_stated_counts_of_style_are_taken_instead_of_measured(tmp_path):
    table = count_table([votes(tmp_path, {})], style=["length", "markdown"])
    assert table.log().covariates.tolist() == [[0.5, 0.0, 0.5, 0.0]]


def test_without_counts_the_responses_are_measured(tmp_path):
    source = votes(tmp_path, {})
    path = tmp_path / "votes.jsonl"
    path.write_text(path.read_text().replace('"conv_metadata"', '"other"'))
    assert "length_a" in open_battles(path).columns
    table = count_table([open_battles(path)], style=["length"])
    assert table.log().covariates.tolist() == [[0.0]]
    assert source.format == "lmarena-140k"


@pytest.mark.parametrize(
    "counts", [None, {}, {**COUNTS, "list_count_b": None}, {**COUNTS, "sum_assistant_b_tokens": "ten"}]
)
def test_a_missing_count_is_an_error_that_names_it(tmp_path, counts):
    source = votes(tmp_path, {}, {"conv_metadata": counts})
    with pytest.raises(
        BadBattle, match=r"votes.jsonl, line 2: conv_metadata states no (length|lists) of response"
    ):
        count_table([source], style=["length", "markdown"])
