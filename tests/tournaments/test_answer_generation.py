"""Entrants answer the prompts: append-only, resumable, within a budget."""

from __future__ import annotations

import json

import pytest
import yaml

from support.arranged import PRICES, arrange, read_lines, write_lines
from support.servers.paid_llm import paid_llm
from tiltyard.settings.prices import to_picodollars


def generating(folder, server, *, prompts=6, provider="openai", models=("a", "b"), **sections):
    """Entrants that answer by the server, one that does not, and no answers."""
    arranged = arrange(folder, models=[*models, "silent"], prompts=prompts, dimensions=1, **sections)
    (folder / "answers.jsonl").unlink()
    own = {"provider": provider, "base_url": server.base_url(provider)}
    document = yaml.safe_load(arranged.config.read_text())
    document.pop("answers")
    entrants = [
        {"entrant_id": name, "generate": {**own, "model": f"{name}-model", "system": f"You are {name}."}}
        for name in models
    ]
    document["entrants"] = [*entrants, {"entrant_id": "silent"}]
    document["caches"] = {"responses_dir": "responses"}
    document["prices"] = {**document["prices"], **{f"{name}-model": PRICES for name in models}}
    document["judge"].update(own)
    arranged.config.write_text(yaml.safe_dump(document, sort_keys=False))
    return arranged


def author(arranged, **fields):
    """Change how every entrant answers."""
    document = yaml.safe_load(arranged.config.read_text())
    for entrant in document["entrants"]:
        if "generate" in entrant:
            entrant["generate"].update(fields)
    return arranged.change(entrants=document["entrants"])


def responses(arranged, name):
    return read_lines(arranged.folder / "responses" / f"responses_{name}.jsonl")


@pytest.mark.slow(but="batch-openai")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("batch", [False, True], ids=["live", "batch"])
def test_every_entrant_answers_every_prompt_once(tmp_path, billed, provider, batch):
    arranged = author(generating(tmp_path, billed.server, provider=provider), batch=batch)
    ran = arranged.done("generate", arranged.config)
    assert "a: 0 existing, 6 written." in ran.out
    assert "silent" not in ran.out
    assert billed.since() == 12
    bank = [row["prompt_id"] for row in read_lines(tmp_path / "prompts.jsonl")]
    for name in ("a", "b"):
        rows = responses(arranged, name)
        assert [row["prompt_id"] for row in rows] == bank
        assert {row["entrant_id"] for row in rows} == {name}
        assert all(row["response_text"] for row in rows)
    before = (tmp_path / "responses" / "responses_a.jsonl").read_bytes()
    ran = arranged.done("generate", arranged.config)
    assert "a: 6 existing, 0 written." in ran.out
    assert "0 calls to make" in ran.err
    assert billed.since() == 12
    assert (tmp_path / "responses" / "responses_a.jsonl").read_bytes() == before
    # And a tournament of what was generated.
    arranged.done("run", arranged.config, "--output-dir", "out")
    assert billed.since() == 12 + 12
    arranged.done("verify", "out")


def test_only_what_is_missing_is_asked_and_nothing_there_is_changed(tmp_path, billed):
    arranged = generating(tmp_path, billed.server, models=("a",))
    (tmp_path / "responses").mkdir()
    mine = [
        {"entrant_id": "a", "prompt_id": "p0003", "response_text": "By hand. Ünïcode.", "note": 1},
        {"entrant_id": "a", "prompt_id": "p0001", "response_text": "Also by hand."},
    ]
    path = tmp_path / "responses" / "responses_a.jsonl"
    # Whole, but without a newline at its end, as an editor may leave it.
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in mine))
    before = path.read_text()
    ran = arranged.done("generate", arranged.config)
    assert "a: 2 existing, 4 written." in ran.out
    assert billed.since() == 4
    assert path.read_text().startswith(before + "\n")
    rows = responses(arranged, "a")
    assert [row["prompt_id"] for row in rows] == ["p0003", "p0001", "p0000", "p0002", "p0004", "p0005"]


def test_what_an_answers_file_holds_is_not_asked_for(tmp_path, billed):
    arranged = generating(tmp_path, billed.server, models=("a",)).change(answers="mine.jsonl")
    row = {"prompt_id": "p0002", "prompt": "What is 2 times 3?", "model": "a", "response": "Stated."}
    write_lines(tmp_path / "mine.jsonl", [row, {**row, "model": "silent"}])
    ran = arranged.done("generate", arranged.config)
    assert "a: 1 existing, 5 written." in ran.out
    assert billed.since() == 5
    arranged.done("plan", arranged.config)


def test_half_a_line_at_the_end_is_taken_off_and_written_again_for_nothing(tmp_path, billed):
    arranged = generating(tmp_path, billed.server, models=("a",))
    arranged.done("generate", arranged.config)
    path = tmp_path / "responses" / "responses_a.jsonl"
    whole = path.read_bytes()
    # A newline, half a line, many lines, half of the first line, and everything.
    for left in (whole[:-1], whole[:-30], whole[:-400], b'{"entrant_id": "a", "prom', b""):
        path.write_bytes(left)
        arranged.done("generate", arranged.config)
        assert path.read_bytes() == whole
    assert billed.since() == 6


def test_a_broken_line_in_the_middle_is_named_and_left_alone(tmp_path, billed):
    arranged = generating(tmp_path, billed.server, models=("a",))
    (tmp_path / "responses").mkdir()
    path = tmp_path / "responses" / "responses_a.jsonl"
    path.write_text('{"entrant_id": "a",\n{"entrant_id": "a", "prompt_id": "p0000", "response_text": "x"}\n')
    before = path.read_bytes()
    ran = arranged.call("generate", arranged.config)
    assert ran.code == 2
    assert "responses_a.jsonl" in ran.err
    assert path.read_bytes() == before
    assert billed.since() == 0


def test_a_refusal_is_an_answer(tmp_path):
    with paid_llm(refuse=1.0) as server:
        arranged = generating(tmp_path, server, models=("a",))
        ran = arranged.done("generate", arranged.config)
        assert "a: 0 existing, 6 written." in ran.out
        assert {row["response_text"] for row in responses(arranged, "a")} == {"I cannot judge this."}
        arranged.done("generate", arranged.config)
        assert server.settled_tally()["paid_calls"] == 6


def test_an_answer_that_was_cut_off_is_kept_and_marked_and_ends_with_code_3(tmp_path, billed):
    arranged = author(generating(tmp_path, billed.server, models=("a",)), max_tokens=3)
    for had, written in ((0, 6), (6, 0)):
        ran = arranged.call("generate", arranged.config)
        assert ran.code == 3
        assert f"a: {had} existing, {written} written; 6 truncated." in ran.out
        assert "max_tokens (3 now)" in ran.err
        # The same limit would cut them off again.
        assert billed.since() == 6
    rows = responses(arranged, "a")
    assert len(rows) == 6
    assert all(row["truncated"] is True and row["response_text"] for row in rows)


@pytest.mark.slow
def test_with_more_room_whole_answers_take_the_place_of_those_that_were_cut_off(tmp_path, billed):
    arranged = author(generating(tmp_path, billed.server), max_tokens=3)
    arranged.call("generate", arranged.config)
    ran = author(arranged, max_tokens=500).done("generate", arranged.config)
    assert "a: 6 existing, 6 written." in ran.out
    rows = responses(arranged, "a")
    assert [row.get("truncated", False) for row in rows] == [True] * 6 + [False] * 6
    # The whole ones are judged, and nothing is left to ask.
    ran = arranged.done("run", arranged.config, "--output-dir", "out")
    assert "truncated-answers" not in ran.out
    judged = read_lines(tmp_path / "out" / "answers.jsonl")
    assert not any("truncated" in row for row in judged)
    texts = {row["prompt_id"]: row["response_text"] for row in rows[6:]}
    assert {row["prompt_id"]: row["response"] for row in judged if row["model"] == "a"} == texts
    before = billed.since()
    arranged.done("generate", arranged.config)
    assert billed.since() == before
    # With less room again, what is whole stays.
    author(arranged, max_tokens=3).done("generate", arranged.config)
    assert billed.since() == before


@pytest.mark.slow
def test_a_tournament_that_judges_cut_off_answers_says_how_many(tmp_path, billed):
    arranged = generating(tmp_path, billed.server)
    arranged.done("generate", arranged.config)
    path = tmp_path / "responses" / "responses_a.jsonl"
    write_lines(path, [{**row, "truncated": k < 2} for k, row in enumerate(responses(arranged, "a"))])
    planned = arranged.done("plan", arranged.config)
    assert "2 answers were" in planned.err
    ran = arranged.done("run", arranged.config, "--output-dir", "out")
    assert "2 answers were" in ran.err
    [finding] = [
        one for one in arranged.document("diagnostics.json")["findings"] if one["name"] == "truncated-answers"
    ]
    assert "off: a 2." in finding["text"]
    assert "max_tokens" in finding["advice"]
    assert "truncated-answers" in ran.out
    assert "truncated-answers" in (tmp_path / "out" / "report.html").read_text()
    judged = read_lines(tmp_path / "out" / "answers.jsonl")
    assert [row["prompt_id"] for row in judged if row.get("truncated")] == ["p0000", "p0001"]
    arranged.done("verify", "out")
    # A mark that is taken off is noticed.
    write_lines(
        tmp_path / "out" / "answers.jsonl",
        [{name: row[name] for name in row if name != "truncated"} for row in judged],
    )
    assert arranged.call("verify", "out").code == 1


def test_a_reply_without_text_is_missing_and_ends_with_code_3(tmp_path, billed):
    arranged = author(generating(tmp_path, billed.server, models=("a",)), model="needs-500", max_tokens=100)
    ran = arranged.call("generate", arranged.config)
    assert ran.code == 3
    assert "a: 0 existing, 0 written; 6 missing (truncated 6)." in ran.out
    assert "6 prompts have" in ran.err
    assert "max_tokens (100 now)" in ran.err
    assert not (tmp_path / "responses" / "responses_a.jsonl").exists()


@pytest.mark.slow(but="live")
@pytest.mark.parametrize("batch", [False, True], ids=["live", "batch"])
def test_the_budget_holds_for_all_of_it_however_often_it_is_run(tmp_path, billed, batch):
    arranged = author(generating(tmp_path, billed.server), batch=batch, max_tokens=100)
    budget = "0.0025" if batch else "0.005"
    for _ in range(2):
        ran = arranged.call("generate", arranged.config, "--budget-usd", budget)
        assert ran.code == 3
        assert "cover them" in ran.err
        assert 0 < billed.since("picodollars") <= to_picodollars(budget)
    written = sum(len(read_lines(path)) for path in (tmp_path / "responses").iterdir() if path.stat().st_size)
    assert written == billed.since()
    ran = arranged.done("generate", arranged.config, "--budget-usd", "1")
    assert "missing" not in ran.out
    assert billed.since() == 12


def test_a_budget_needs_a_price(tmp_path, billed):
    arranged = generating(tmp_path, billed.server).change(prices=None)
    ran = arranged.call("generate", arranged.config, "--budget-usd", "1")
    assert ran.code == 2
    assert "the price" in ran.err
    assert billed.since() == 0
    assert "Paid: unknown." in arranged.done("generate", arranged.config).out


def test_what_a_configuration_must_say(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge())
    ran = arranged.call("generate", arranged.config)
    assert ran.code == 2
    assert "caches.responses_dir" in ran.err
    ran = arranged.change(caches={"responses_dir": "r"}).call("generate", arranged.config)
    assert ran.code == 2
    assert "section generate" in ran.err


@pytest.mark.slow
def test_two_entrants_that_are_the_same_model_are_asked_once(tmp_path, billed):
    arranged = author(generating(tmp_path, billed.server), model="one", system="Be brief.")
    ran = arranged.done("generate", arranged.config)
    assert "6 calls to make" in ran.err
    assert billed.since() == 6
    assert [row["response_text"] for row in responses(arranged, "a")] == [
        row["response_text"] for row in responses(arranged, "b")
    ]


@pytest.mark.slow
def test_names_with_slashes_have_files_too(tmp_path, billed):
    arranged = generating(tmp_path, billed.server, models=("lab/a", "lab/b"))
    arranged.done("generate", arranged.config)
    assert (tmp_path / "responses" / "responses_lab%2Fa.jsonl").is_file()
    arranged.done("run", arranged.config, "--output-dir", "out")
    assert {row["model_a"] for row in read_lines(tmp_path / "out" / "battles.jsonl")} == {"lab/a"}
