"""`tiltyard init --answers`: a configuration for answers that people have."""

from __future__ import annotations

import json

import yaml

from support.arranged import Arranged
from tiltyard.settings.tournament_config import load_config


def files(folder):
    (folder / "logs").mkdir()
    for model, word in (("a", ""), ("b", " fine"), ("c", " poor")):
        rows = [
            {"prompt_id": f"q{k}", "prompt": f"Question {k}?", "model": model, "response": f"Reply {k}{word}"}
            for k in range(4)
        ]
        (folder / "logs" / f"{model}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    return [word for model in "abc" for word in ("--answers", f"logs/{model}.jsonl")]


def test_answers_and_a_judge_start_a_configuration_that_is_planned_and_run(tmp_path, billed):
    arranged, answers = Arranged(tmp_path), files(tmp_path)
    judge = ("--judge", "likes-fine", "--base-url", billed.server.openai, "--rubric", "factuality")
    ran = arranged.done("init", "study", *answers, *judge)
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
    again = arranged.call("init", "study", *answers, *judge)
    assert again.code == 2
    assert "already exists; choose" in again.err


def test_a_judge_may_be_named_later(tmp_path):
    arranged, answers = Arranged(tmp_path), files(tmp_path)
    ran = arranged.done("init", "study", *answers)
    assert "judge under modes" in ran.err
    lacks = arranged.call("plan", "study/tournament.yaml")
    assert lacks.code == 2
    assert "mode pilot" in lacks.err


def test_what_is_missing_is_said(tmp_path):
    arranged, answers = Arranged(tmp_path), files(tmp_path)
    for arguments, said in (
        (("study", "--judge", "x"), "need --answers FILE"),
        (("study", *answers, "--base-url", "http://x"), "need --judge MODEL"),
        (("study", *answers[:2]), "answers of a; a tournament needs those of two models or more"),
        (("study", *answers, "--rubric", "nope"), "neither a file nor one of"),
    ):
        ran = arranged.call("init", *arguments)
        assert ran.code == 2
        assert said in ran.err
    assert not (tmp_path / "study").exists()
