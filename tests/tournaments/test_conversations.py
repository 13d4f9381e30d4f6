"""Tournaments of conversations, and of the logs of other tools."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from support.arranged import arrange, read_lines, write_lines
from tiltyard.errors import BadConfig
from tiltyard.files.answers import read_answers, write_answers

NOWHERE = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1"}
FIXTURES = Path(__file__).parents[1] / "files/fixtures/answers"


@pytest.fixture
def tournament(tmp_path):
    return arrange(tmp_path / "here", judge=NOWHERE, modes={"pilot": {"prompts": "all"}})


def changed(tournament, change) -> None:
    """Change every answer of the tournament."""
    path = tournament.folder / "answers.jsonl"
    write_lines(path, [change(row) for row in read_lines(path)])


def first_question(tournament) -> str:
    plan = tournament.prepared().plan
    return json.dumps(plan.request(next(plan.questions())).body)


def test_roles_and_steps_are_shown(tournament) -> None:
    plain, identity = first_question(tournament), tournament.prepared().plan.sha256

    def talk(row):
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Good day."},
            {"role": "user", "content": row["prompt"]},
        ]
        steps = [{"role": "assistant", "tool_calls": [{"name": "look", "arguments": "{}"}]}]
        return row | {"messages": messages, "trace": steps}

    changed(tournament, talk)
    asked = first_question(tournament)
    assert "EARLIER MESSAGE 2: ASSISTANT" in asked
    assert "STEP 1 OF RESPONSE A: TOOL CALL" in asked
    assert "SYSTEM PROMPT" in asked
    assert "EARLIER MESSAGE" not in plain
    assert tournament.prepared().plan.sha256 != identity


def test_scores_and_usage_change_no_question(tournament) -> None:
    before = first_question(tournament), tournament.prepared().plan.sha256
    changed(tournament, lambda row: row | {"scores": {"acc": 1}, "usage": {"cost": 1}, "params_hash": "x"})
    changed(tournament, lambda row: row | {"messages": [{"role": "user", "content": row["prompt"]}]})
    assert (first_question(tournament), tournament.prepared().plan.sha256) == before


def test_scores_without_a_response_and_repeats_are_not_judged(tournament) -> None:
    path = tournament.folder / "answers.jsonl"
    rows = read_lines(path)
    before = tournament.prepared().plan.sha256
    more = [row | {"repeat": 1, "response": "Again."} for row in rows]
    write_lines(path, [*rows, *more, rows[0] | {"kind": "scores", "response": "", "scores": {"acc": 0}}])
    assert tournament.prepared().plan.sha256 == before


PNG = "data:image/png;base64,AAAA"


def with_parts(tournament, *parts) -> None:
    """Ask every prompt with these parts beside its text."""

    def content(row):
        return [{"type": "text", "text": row["prompt"]}, *parts]

    changed(tournament, lambda row: row | {"messages": [{"role": "user", "content": content(row)}]})


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            {"type": "image", "url": PNG},
            "has an image, but the judge judge-1 is not said to see images; set images",
        ),
        ({"type": "image", "url": "https://example.org/x.png"}, "has an image that is not in the file"),
        ({"type": "image"}, "has an image that is not in the file"),
        ({"type": "image", "url": PNG + "A" * 5_000_000}, "more than 5000000 characters"),
        ({"type": "audio", "url": "x.wav"}, r"parts that are neither text nor images \(audio\)"),
    ],
)
def test_what_judges_cannot_see_is_refused(tournament, part: dict, message: str) -> None:
    with_parts(tournament, part)
    with pytest.raises(BadConfig, match=message):
        tournament.prepared()


def test_different_images_for_one_prompt_are_refused(tournament) -> None:
    with_parts(tournament, {"type": "image", "url": PNG})
    path = tournament.folder / "answers.jsonl"
    rows = read_lines(path)
    rows[0]["messages"][0]["content"][1]["url"] = PNG.replace("AAAA", "BBBB")
    write_lines(path, rows)
    with pytest.raises(BadConfig, match="have different images"):
        tournament.prepared()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_judges_that_see_are_shown_images(tmp_path, provider: str) -> None:
    judge = {"provider": provider, "base_url": "http://127.0.0.1:9/v1", "images": True}
    tournament = arrange(tmp_path / "here", judge=judge, modes={"pilot": {"prompts": "all"}})
    with_parts(tournament, {"type": "image", "url": PNG})
    plan = tournament.prepared().plan
    request = plan.request(next(plan.questions()))
    text, image = request.body["messages"][-1]["content"]
    assert "images 1" in text["text"]
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    assert image in ({"type": "image_url", "image_url": {"url": PNG}}, {"type": "image", "source": source})
    assert 50_000 < request.size < 100_000
    assert request.image_bytes == 0
    with_parts(tournament, {"type": "image", "url": PNG + "A" * 1_000_000})
    plan = tournament.prepared().plan
    request = plan.request(next(plan.questions()))
    assert 50_000 < request.size < 100_000
    assert 900_000 < request.image_bytes < 1_000_000


def test_a_log_is_both_bank_and_answers(tournament) -> None:
    """Two configurations of one model, the second under another name."""
    folder = tournament.folder
    shutil.copy(FIXTURES / "samples_arith_2026-08-01T10-00-00.123456.jsonl", folder / "samples_arith.jsonl")
    models = [row["model"] for row in read_lines(folder / "answers.jsonl")]
    first, second = sorted(set(models))[:2]
    log = folder / "samples_arith.jsonl"
    write_answers(
        folder / "answers.jsonl", [*read_answers(log, model=first), *read_answers(log, model=second)]
    )
    plan = tournament.change(prompts={"bank_path": "samples_arith.jsonl"}).prepared().plan
    assert [prompt.prompt_id for prompt in plan.prompts] == ["arith/0", "arith/1"]
    assert plan.prompts[0].gold == "2"
    assert {model for model, _ in plan.answers} == {first, second}


def test_two_logs_of_one_task_are_judged_and_verified(tmp_path, billed) -> None:
    """From two Inspect logs to battles: paired by sample; what failed in one is a missing answer."""
    log = json.loads((FIXTURES / "inspect_log.json").read_text(encoding="utf-8"))
    samples = [one for one in log["samples"] if one["id"] != "talk"]
    arranged = arrange(tmp_path, models=["openai/oak-1", "openai/elm-2"], judge=billed.judge(), dimensions=1)
    for model in ("oak-1", "elm-2"):
        header = {"eval": log["eval"] | {"model": f"openai/{model}"}, "status": "success"}
        with zipfile.ZipFile(tmp_path / f"{model}.eval", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("header.json", json.dumps(header))
            for one in samples if model == "oak-1" else samples[1:]:
                archive.writestr(f"samples/{one['id']}_epoch_1.json", json.dumps(one))
    arranged.change(answers=["oak-1.eval", "elm-2.eval"], prompts={"bank_path": "oak-1.eval"})
    arranged.done("run", arranged.config, "--output-dir", "out")
    battles = read_lines(tmp_path / "out/battles.jsonl")
    assert {row["question_id"] for row in battles} == {"trees/agent", "trees/unscored"}
    written = {(one.model, one.prompt_id): one for one in read_answers(tmp_path / "out/answers.jsonl")}
    assert written["openai/elm-2", "trees/agent"].trace[1].tool == "bash"
    assert written["openai/oak-1", "trees/1"].scores["match"] == 1.0
    arranged.done("verify", "out")
