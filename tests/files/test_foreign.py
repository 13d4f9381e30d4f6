"""Every foreign format: exactly the battles of its fixture, and what it leaves out."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from support.format_samples import FIXTURES, as_parquet
from tiltyard.core.battles import Label, Outcome
from tiltyard.core.battles.battle import Battle
from tiltyard.files import open_battles
from tiltyard.files.battle_source import open_path
from tiltyard.files.judgments import prompt_id
from tiltyard.files.read_options import ReadOptions

A, B, TIE, BAD = Outcome


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def human(model_a: str, model_b: str, winner: Outcome, **more: object) -> Battle:
    return Battle(model_a=model_a, model_b=model_b, winner=winner, source="human", **more)


def judged(model_a: str, model_b: str, winner: Outcome, label: Label | None, **more: object) -> Battle:
    return Battle(model_a=model_a, model_b=model_b, winner=winner, label=label, source="llm-judge", **more)


def weighs(weight: float) -> dict[str, float]:
    """What an arena-hard judgment of two games weighs."""
    return {"judgment_weight": weight}


UNREADABLE = "a verdict of the judge could not be read"
ONE = {"judge_model": "judge-one"}
HARD = {"category": "hard_prompt", **ONE}
ALPACA = {"judge_model": "weighted-judge"}
TREE, RIVER = prompt_id("Name a tree."), prompt_id("Name a river.")

EXPECTED = {
    "lmarena_55k.csv": (
        [
            human("oak-7b", "elm-13b", A, question_id="1001"),
            human("elm-13b", "ash-2", B, question_id="1002"),
            human("ash-2", "oak-7b", TIE, question_id="1003"),
        ],
        {},
    ),
    "lmarena_100k.jsonl": (
        [
            human(
                *("oak-7b", "elm-13b", B),
                question_id="c0ffee01",
                category="code",
                language="English",
                voter="aa11",
                time=at("2024-06-10T06:13:20.5"),
            ),
            human(
                *("ash-2", "elm-13b", BAD),
                question_id="c0ffee02",
                category="creative_writing+math",
                language="French",
                voter="bb22",
                time=at("2024-06-10T06:15:00"),
            ),
            human(
                *("oak-7b", "ash-2", TIE),
                question_id="c0ffee03",
                language="English",
                voter="aa11",
                time=at("2024-06-10T06:16:40"),
            ),
        ],
        {},
    ),
    "lmarena_140k.jsonl": (
        [
            human(
                *("oak-large", "elm-mini", A),
                question_id="v-1",
                language="en",
                voter="s-9",
                time=at("2025-06-01T08:30:00"),
            ),
            human(
                *("elm-mini", "oak-large", BAD),
                question_id="v-2",
                category="code+math",
                language="pl",
                voter="s-9",
                time=at("2025-06-01T08:36:40"),
            ),
            human(
                *("elm-mini", "ash", TIE),
                question_id="v-3",
                language="en",
                voter="s-10",
                time=at("2025-06-02T00:00:00"),
            ),
        ],
        {},
    ),
    "fastchat_battles.json": (
        [
            human(
                *("oak-7b", "elm-13b", A),
                language="English",
                voter="arena_user_42",
                time=at("2023-04-24T15:53:11.132200"),
            ),
            human(
                *("elm-13b", "ash-2", BAD),
                language="German",
                voter="arena_user_43",
                time=at("2023-04-24T15:54:14.626700"),
            ),
        ],
        {"the voter knew the models (anony is false)": 1},
    ),
    "comparia_votes.jsonl": (
        [
            human(
                *("chêne-8b", "orme-70b", B),
                question_id="p-1",
                category="ideas",
                voter="m1",
                time=at("2025-01-10T09:00:00"),
            ),
            human("orme-70b", "frêne", TIE, question_id="p-2", voter="h2", time=at("2025-01-10T09:05:00")),
            human("frêne", "chêne-8b", A, question_id="p-6", voter="m2", time=at("2025-01-10T09:09:00")),
        ],
        {
            "no choice was made": 1,
            "the chosen model is neither of the two": 1,
            "both answers came from one model": 1,
        },
    ),
    "comparia_turns.jsonl": (
        [
            human(
                *("chêne-8b", "orme-70b", A),
                question_id="c1",
                language="fr",
                time=at("2026-02-01T12:00:00"),
            ),
            human("orme-70b", "frêne", TIE, question_id="c2", time=at("2026-02-01T13:00:00")),
            human("orme-70b", "frêne", BAD, question_id="c3", time=at("2026-02-01T14:00:00")),
            human("orme-70b", "frêne", B, question_id="c6", time=at("2026-02-01T17:00:00")),
        ],
        {"no choice was made": 1, "the voter did not know": 1, "excluded by the arena": 1},
    ),
    "judgearena.jsonl": (
        [
            judged(
                *("mine-1b", "oak", TIE, Label.INCONSISTENT),
                question_id="q1",
                language="en",
                pref=pytest.approx(0.6),
                **ONE,
            ),
            judged(
                *("elm", "mine-1b", B, Label.LEAN),
                question_id="q2",
                language="fr",
                pref=pytest.approx(0.35),
                **ONE,
            ),
            judged("mine-1b", "yew", B, None, question_id="q4", language="en", pref=0.25, **ONE),
            human("oak", "elm", BAD, pref=0.5),
        ],
        {UNREADABLE: 1},
    ),
    "arena_hard/model_judgment": (
        [
            judged("elm", "base-0", TIE, Label.TIE, question_id="u1", pref=0.5, extra=weighs(2), **HARD),
            judged("oak", "base-0", A, Label.WIN, question_id="u1", pref=1.0, extra=weighs(4), **HARD),
            judged(
                *("oak", "base-0", TIE, Label.INCONSISTENT),
                question_id="u2",
                pref=0.5,
                extra=weighs(2),
                **HARD,
            ),
            judged(
                *("oak", "base-1", B, Label.LEAN),
                question_id="u3",
                category="creative_writing",
                pref=0.125,
                extra=weighs(4),
                **ONE,
            ),
        ],
        {UNREADABLE: 2},
    ),
    "mt_bench.jsonl": (
        [
            judged("oak", "elm", A, Label.WIN, question_id="81", time=at("2023-06-20T00:50:22"), **ONE),
            judged(
                *("oak", "elm", TIE, Label.INCONSISTENT),
                question_id="81",
                time=at("2023-06-20T00:50:23"),
                **ONE,
            ),
            judged("oak", "ash", B, Label.LEAN, question_id="82", time=at("2023-06-20T00:50:24"), **ONE),
            judged("oak", "ash", TIE, Label.TIE, question_id="84", time=at("2023-06-20T00:50:26"), **ONE),
        ],
        {UNREADABLE: 1},
    ),
    "alpaca_eval.json": (
        [
            judged("base", "mine", B, None, question_id=TREE, category="helpful", pref=0.125, **ALPACA),
            judged("base", "mine", A, None, question_id=RIVER, category="koala", pref=1.0, **ALPACA),
            *(
                judged(
                    *("base", "mine", TIE, None),
                    question_id=prompt_id(prompt),
                    category="koala",
                    pref=0.5,
                    **ALPACA,
                )
                for prompt in ("Name a star.", "Name a fish.")
            ),
        ],
        {"the annotator gave no preference": 1},
    ),
    "autoarena.csv": (
        [
            judged("oak", "elm", A, None, question_id=TREE, judge_model="gpt-judge"),
            human("ash", "oak", B, question_id=TREE, voter="AutoArena User"),
            judged("oak", "elm", TIE, None, question_id=RIVER, judge_model="gpt-judge"),
        ],
        {},
    ),
    "open_webui.json": (
        [
            human(
                "oak",
                "elm",
                A,
                question_id=TREE,
                voter="ann",
                category="general",
                time=at("2026-01-01T00:00:01"),
            ),
            human(
                "oak",
                "ash",
                TIE,
                question_id=TREE,
                voter="ann",
                category="general",
                time=at("2026-01-01T00:00:01"),
            ),
            human(
                "elm",
                "ash",
                B,
                question_id=TREE,
                voter="ann",
                category="general",
                time=at("2026-01-01T00:00:02"),
            ),
            human("elm", "oak", BAD, question_id=RIVER, voter="bob", time=at("2026-01-01T00:00:05")),
            human(
                "oak",
                "elm",
                A,
                question_id="c4",
                voter="cid",
                category="general",
                time=at("2026-01-01T00:00:07"),
            ),
        ],
        {
            "one answer was rated, not compared with another": 1,
            "neither a thumb up nor a thumb down": 1,
        },
    ),
    "winner_loser.csv": (
        [
            Battle(model_a="oak", model_b="elm", winner=A, question_id="q1", voter="ann", category="code"),
            Battle(model_a="elm", model_b="ash", winner=A, question_id="q2", voter="bob"),
            Battle(model_a="ash", model_b="oak", winner=A, category="prose"),
        ],
        {},
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_battles_of_a_fixture(name: str) -> None:
    battles, left_out = EXPECTED[name]
    source = open_battles(FIXTURES / name)
    assert list(source.battles()) == battles
    assert dict(source.notes) == left_out


@pytest.mark.parametrize("name", EXPECTED)
def test_batches_hold_the_same_battles(name: str) -> None:
    battles, left_out = EXPECTED[name]
    source = open_battles(FIXTURES / name)
    rows = [row for batch in source.batches(batch_size=2) for row in batch.to_pylist()]
    assert [Battle.from_dict(row) for row in rows] == battles
    assert dict(source.notes) == left_out
    used = {key for row in rows for key, value in row.items() if value is not None}
    assert used <= set(source.columns)


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.endswith((".jsonl", ".json"))])
def test_the_same_battles_from_parquet(name: str, tmp_path) -> None:
    if name == "arena_hard/model_judgment":
        pytest.skip("a folder")
    battles, left_out = EXPECTED[name]
    source = open_battles(as_parquet(name, tmp_path))
    assert source.format == open_battles(FIXTURES / name).format
    assert list(source.battles()) == battles
    assert dict(source.notes) == left_out


def test_a_column_that_the_file_lacks_is_not_offered() -> None:
    source = open_battles(FIXTURES / "fastchat_battles.json")
    assert "question_id" not in source.columns
    (batch,) = source.batches(["model_a", "question_id", "weight"])
    assert batch.schema.names == ["model_a"]


def test_votes_without_a_judge_say_nothing_of_their_source(tmp_path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("prompt,model_a,model_b,response_a,response_b,winner\nhi,oak,elm,x,y,-\n")
    source = open_battles(path)
    assert source.format == "autoarena"
    assert list(source.battles()) == [
        Battle(model_a="oak", model_b="elm", winner=TIE, question_id=prompt_id("hi"))
    ]


def test_early_judgearena_files_are_read_by_name(tmp_path) -> None:
    """Without pref_hard they look like ours, and their pref contradicts the winner."""
    path = tmp_path / "battles.jsonl"
    path.write_text(
        '{"model_a": "x", "model_b": "y", "winner": "model_a", "pref": 0.1, "source": "llm-judge"}\n'
    )
    (battle,) = open_battles(path, format="judgearena").battles()
    assert battle.pref == pytest.approx(0.9)
    assert battle.winner is A


def test_of_an_arena_hard_folder_only_the_judgments_are_read():
    whole, judged = (open_battles(FIXTURES / "arena_hard" / part) for part in ("", "model_judgment"))
    assert list(whole.battles()) == list(judged.battles()) != []


def test_older_arena_hard_judgments_get_their_baseline_from_the_reader(tmp_path) -> None:
    path = tmp_path / "oak.jsonl"
    path.write_text(
        '{"question_id": "q1", "model": "oak", "judge": "j", "games": [{"score": "B>>A"}, {"score": "B>A"}]}\n'
        '{"question_id": "q2", "model": "oak", "judge": "j", "baseline": "own", '
        '"games": [{"score": "A>B"}, {"score": "B>>A"}]}\n'
    )
    first, second = open_path(path, ReadOptions(baseline="gpt-4-0314")).battles()
    assert (first.model_a, first.model_b, first.label) == ("oak", "gpt-4-0314", Label.INCONSISTENT)
    assert (first.pref, first.extra["judgment_weight"]) == (0.75, 4.0)
    assert (second.model_b, second.pref, second.extra["judgment_weight"]) == ("own", 0.0, 4.0)
    (batch,) = open_path(path, ReadOptions(baseline="gpt-4-0314")).batches(["model_b", "judgment_weight"])
    assert batch.to_pydict() == {"model_b": ["gpt-4-0314", "own"], "judgment_weight": [4.0, 4.0]}
