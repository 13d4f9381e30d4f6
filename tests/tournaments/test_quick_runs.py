"""Tournaments without a configuration: answers and a judge are enough."""

from __future__ import annotations

import json

import pytest
import yaml

from support.arranged import Arranged
from tiltyard.settings.tournament_config import load_config


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


def test_judges_of_a_file_and_settings_of_the_command_are_those_of_the_run(tmp_path, billed):
    answers(tmp_path, "a", "")
    answers(tmp_path, "b", " fine")
    judge = {"model": "likes-fine", "base_url": billed.server.openai, "max_tokens": 700, "family": "fine"}
    (tmp_path / "judge.yaml").write_text(yaml.safe_dump({"judges": [judge]}))
    options = (
        "--judge-config",
        "judge.yaml",
        "--form",
        "text",
        "--concurrency",
        "2",
        "--price",
        "likes-fine=3,15",
    )
    arranged = Arranged(tmp_path)
    assert arranged.call("ab", "a.jsonl", "b.jsonl", *options).code == 5
    (config,) = (tmp_path / "runs").glob("*/tournament.yaml")
    written = yaml.safe_load(config.read_text())["modes"]["ab"]["judges"]
    assert written == [judge | {"provider": "openai", "form": "text", "concurrency": 2}]
    (tmp_path / "judge.yaml").write_text("judges:\n- model: x\n  max_token: 5\n")
    refused = arranged.call("ab", "a.jsonl", "b.jsonl", *options)
    assert (refused.code, "judge.yaml, line 3" in refused.err) == (2, True), refused.err
    assert arranged.call("ab", "a.jsonl", "b.jsonl", "--form", "text").code == 2


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


# `tiltyard init --answers`: a configuration for answers that people have.


def logs(folder):
    (folder / "logs").mkdir()
    words = (("a", ""), ("b", " fine"), ("c", " poor"))
    every = [answers(folder / "logs", model, word, 4) for model, word in words]
    return [word for option, name in every for word in (option, f"logs/{name}")]


def test_answers_and_a_judge_start_a_configuration_that_is_planned_and_run(tmp_path, billed):
    arranged, given = Arranged(tmp_path), logs(tmp_path)
    judge = ("--judge", "likes-fine", "--base-url", billed.server.openai, "--rubric", "factuality")
    ran = arranged.done("init", "study", *given, *judge)
    assert "factuality." in ran.err
    assert "Next" in ran.err
    text = (tmp_path / "study" / "tournament.yaml").read_text()
    document = yaml.safe_load(text)
    assert document["answers"] == ["../logs/a.jsonl", "../logs/b.jsonl", "../logs/c.jsonl"]
    assert [one["entrant_id"] for one in document["entrants"]] == ["a", "b", "c"]
    assert list(document["modes"]) == ["pilot", "headline"]
    assert "that are compared" in text
    assert "# budget_usd: 5.0" in text
    # The comments are right: without the hashes they are part of a configuration.
    examples = text[text.index("# A run never") :].replace("# ", "").replace("A run never", "# A run never")
    kept = text[: text.index("# A run never")] + examples.replace("Dollars for", "# Dollars for")
    (tmp_path / "study" / "whole.yaml").write_text(kept)
    whole = load_config(tmp_path / "study" / "whole.yaml")
    assert (whole.budget_usd, list(whole.prices)) == (5, ["my-model"])
    arranged.done("plan", "study/tournament.yaml")
    arranged.done("run", "study/tournament.yaml", "--output-dir", "out")
    arranged.done("verify", "out")
    again = arranged.call("init", "study", *given, *judge)
    assert again.code == 2
    assert "already exists; choose" in again.err


def test_a_judge_may_be_named_later(tmp_path):
    arranged, given = Arranged(tmp_path), logs(tmp_path)
    ran = arranged.done("init", "study", *given)
    assert "judge under modes" in ran.err
    lacks = arranged.call("plan", "study/tournament.yaml")
    assert lacks.code == 2
    assert "mode pilot" in lacks.err


def test_what_is_missing_to_start_is_said(tmp_path):
    arranged, given = Arranged(tmp_path), logs(tmp_path)
    for arguments, said in (
        (("study", "--judge", "x"), "need --answers FILE"),
        (("study", *given, "--base-url", "http://x"), "need --judge MODEL"),
        (("study", *given[:2]), "answers of a; a tournament needs those of two models or more"),
        (("study", *given, "--rubric", "nope"), "neither a file nor one of"),
    ):
        ran = arranged.call("init", *arguments)
        assert ran.code == 2
        assert said in ran.err
    assert not (tmp_path / "study").exists()
