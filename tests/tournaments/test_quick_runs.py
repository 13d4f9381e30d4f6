"""Tournaments without a configuration: answers and a judge are enough."""

from __future__ import annotations

import json

import pytest

from support.arranged import Arranged


def answers(folder, model, word, count=5):
    rows = (
        {
            "prompt_id": f"q{k}",
            "prompt": f"Question {k}?",
            "model": model,
            "response": f"Reply {k}{word}",
            "gold": "x",
        }
        for k in range(count)
    )
    (folder / f"{model}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ("--answers", f"{model}.jsonl")


def test_three_files_and_a_judge_make_a_tournament_that_is_resumed_and_verified(tmp_path, billed):
    files = [
        *answers(tmp_path, "a", ""),
        *answers(tmp_path, "b", " fine"),
        *answers(tmp_path, "c", " poor", 4),
    ]
    judge = ("--judge", "likes-fine", "--base-url", billed.server.openai, "--price", "likes-fine=3,15")
    arranged = Arranged(tmp_path)
    ran = arranged.done("run", *files, *judge, "--rubric", "factuality", "--rubric", "preference")
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"Wrote the configuration to runs/{folder.name}/tournament.yaml." in ran.err
    assert "b" in ran.out
    asked = billed.since()
    assert asked
    arranged.done("verify", folder / "run")
    # The same command goes on in the same folder, and the configuration that was written makes the same run.
    arranged.done("run", *files, *judge, "--rubric", "factuality", "--rubric", "preference")
    arranged.done("run", folder / "tournament.yaml", "--mode", "quick", "--output-dir", "again")
    assert billed.since() == asked
    assert list((tmp_path / "runs").iterdir()) == [folder]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--answers", "a.jsonl"), "--answers needs --judge MODEL"),
        (
            ("--answers", "a.jsonl", "--judge", "x"),
            "answers of a; a tournament needs those of two models or more",
        ),
        (("t.yaml", "--answers", "a.jsonl", "--judge", "x"), "takes the place of CONFIG"),
        (("t.yaml", "--judge", "x"), "need --answers FILE"),
    ],
)
def test_what_is_missing_is_said(tmp_path, arguments, said):
    answers(tmp_path, "a", "")
    ran = Arranged(tmp_path).call("run", *arguments)
    assert ran.code == 2
    assert said in ran.err
