"""The sample that `tiltyard init` writes: complete, readable, and never over what is there."""

from __future__ import annotations

import itertools
import json

import pytest
import typer
from typer.testing import CliRunner

from tiltyard.cli.plan import init
from tiltyard.core.battles.outcome import JUDGE_LABELS
from tiltyard.core.judging.matches import Prompt, pilot_subset
from tiltyard.core.judging.question import QuestionTexts, question_nonce
from tiltyard.core.judging.reconciliation import reconcile
from tiltyard.core.judging.verdict import Reply, VerdictForm, read_reply
from tiltyard.errors import BadOption
from tiltyard.files.answers import read_answers
from tiltyard.settings.prices import FREE, open_prices
from tiltyard.settings.ready_tournaments import QuickJudge, sample_verdicts, write_sample
from tiltyard.settings.tournament_config import load_config, load_rubric


@pytest.fixture
def folder(tmp_path):
    write_sample(tmp_path / "sample")
    return tmp_path / "sample"


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def replies(folder):
    return {row["nonce"]: row["reply"] for row in rows(folder / "replies.jsonl")}


def questions(folder):
    """Every question of the sample's headline mode: dimension, prompt, models, texts, rubric."""
    config = load_config(folder / "tournament.yaml")
    prompts = {row["prompt_id"]: row for row in rows(config.at(config.prompts.bank_path))}
    answers = {(a.model, a.prompt_id): a for path in config.answers for a in read_answers(config.at(path))}
    models = [one.entrant_id for one in config.entrants]
    for dimension, (prompt_id, prompt) in itertools.product(config.dimensions, prompts.items()):
        rubric = load_rubric(config, dimension)
        for first, second in itertools.permutations(models, 2):
            assert answers[first, prompt_id].prompt == prompt["text"]
            texts = (answers[name, prompt_id].response for name in (first, second))
            shown = QuestionTexts(prompt["text"], *texts, prompt.get("gold"), prompt.get("expected_behavior"))
            yield dimension, prompt_id, first, second, shown, rubric


def test_it_has_five_prompts_three_models_and_a_reply_to_every_question(folder):
    recorded = replies(folder)
    asked = [question_nonce(shown, rubric) for *_, shown, rubric in questions(folder)]
    assert len(asked) == 5 * 3 * 3 * 2 == len(recorded)
    assert set(asked) == set(recorded)


def test_both_modes_run_on_the_recorded_judge_for_nothing(folder):
    config = load_config(folder / "tournament.yaml")
    bank = [Prompt(row["prompt_id"], row["text"], row["source"]) for row in rows(folder / "prompts.jsonl")]
    for name in ("pilot", "headline"):
        (judge,) = config.mode(name).judges
        assert (judge.provider, config.at(judge.base_url or "")) == ("replay", folder / "replies.jsonl")
        assert open_prices(config.prices).price(judge.provider, judge.model, judge.base_url) == FREE
    pilot = config.mode("pilot")
    assert len(pilot_subset(bank, pilot.prompts.n or 0, pilot.seed)) == 3
    assert config.mode("headline").prompts.all
    assert set(config.checks.model_dump().values()) == {0}


def test_the_opinions_show_every_kind_of_result(folder):
    recorded = replies(folder)
    verdicts = {}
    for dimension, prompt_id, first, second, shown, rubric in questions(folder):
        reading = read_reply(Reply(recorded[question_nonce(shown, rubric)]["text"]), VerdictForm.SCHEMA)
        assert reading.verdict is not None
        verdicts[dimension, prompt_id, first, second] = reading.verdict
    results = [
        reconcile(verdict, verdicts[dimension, prompt_id, second, first])
        for (dimension, prompt_id, first, second), verdict in verdicts.items()
        if first < second
    ]
    assert {result.label for result in results} == set(JUDGE_LABELS)
    assert {result.both_bad for result in results} == {False, True}


def test_opinions_speak_of_slots_and_never_of_models():
    for one in sample_verdicts():
        assert not any(name in one.reasoning for name in ("heron", "plover", "wren", "{", "}"))
    assert len({(o.dimension, o.prompt_id, o.first, o.second) for o in sample_verdicts()}) == 90


def test_the_configuration_shows_how_to_ask_a_real_judge(folder):
    text = (folder / "tournament.yaml").read_text(encoding="utf-8")
    before, _, after = text.partition("  # provider: anthropic\n")
    block, _, rest = after.partition("\n\n")
    real = before.replace("  provider: replay\n  base_url: replies.jsonl\n", "").replace(
        "  pilot_model: recorded-judge\n  headline_model: recorded-judge\n", ""
    )
    lines = "".join(
        line.replace("# ", "", 1) + "\n" for line in ["  # provider: anthropic", *block.splitlines()]
    )
    (folder / "tournament.yaml").write_text(f"{real}{lines}\n{rest}", encoding="utf-8")
    config = load_config(folder / "tournament.yaml")
    judge = config.mode("headline").judges[0]
    assert (judge.provider, judge.model, judge.batch, judge.ttl) == ("anthropic", "claude-opus-5", True, "1h")
    for name in ("pilot", "headline"):
        one = config.mode(name).judges[0]
        assert open_prices().price(one.provider, one.model) is not None


def test_it_never_writes_over_a_file(tmp_path):
    (tmp_path / "replies.jsonl").write_text("mine")
    with pytest.raises(BadOption, match="already exists"):
        write_sample(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["replies.jsonl"]
    assert (tmp_path / "replies.jsonl").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="cannot write into"):
        write_sample(tmp_path / "file" / "folder")


def test_the_command_writes_and_names_the_next_one(tmp_path, monkeypatch):
    app = typer.Typer()
    app.command()(init)
    ran = CliRunner().invoke(app, [str(tmp_path / "my folder")])
    assert ran.exit_code == 0
    assert f"tiltyard run '{tmp_path}/my folder/tournament.yaml' --mode pilot" in ran.stderr
    again = CliRunner().invoke(app, [str(tmp_path / "my folder")])
    assert isinstance(again.exception, BadOption)
    monkeypatch.chdir(tmp_path)
    assert "tournament.yaml --mode" in CliRunner().invoke(app, []).stderr


def test_addresses_of_the_providers_own_libraries_are_used_with_their_key(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", " http://127.0.0.1:9/v1 ")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    judge = QuickJudge("some-model")
    assert judge.settings() == {
        "model": "some-model",
        "provider": "openai",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key_env": "OPENAI_API_KEY",
    }
    assert "OPENAI_BASE_URL" in judge.told()
    stated = QuickJudge("some-model", base_url="http://127.0.0.1:8/v1")
    for other in (stated, QuickJudge("claude-x"), QuickJudge("some-model", "anthropic")):
        assert other.told() is None
        assert other.settings().get("base_url") == other.base_url
        assert "api_key_env" not in other.settings()
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "api_key_env" not in judge.settings()
