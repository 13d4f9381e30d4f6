"""Judgments that another script has paid for: rated instead of asking, as far as they are of today's texts."""

from __future__ import annotations

import json

import pytest

from support.arranged import NO_CHECKS, PRICES, Arranged
from support.paper_tournament import CONFIG, DIMENSIONS, ENTRANTS, SOURCES, make_paper_tournament

JUDGE = "judge-1"
STEPS = {"A": "A>B", "B": "B>A", "TIE": "A=B"}
PAIRS = sum(SOURCES.values()) * 6


@pytest.fixture
def paper(tmp_path):
    return make_paper_tournament(tmp_path)


def configured(paper, **judge):
    """The tournament, whose judge may be a server that counts."""
    judge = {"pilot_model": JUDGE, "headline_model": JUDGE, **judge}
    paper.write_config(judge=judge, checks=NO_CHECKS, prices={JUDGE: PRICES}, elo={"n_perms": 10})
    return Arranged(paper.root)


def rate(arranged, *options, out="out", mode="headline"):
    return arranged.call("run", CONFIG, "--mode", mode, "--skip-judging", "--output-dir", out, *options)


def question_rows(folder):
    """Every question of a run, from whichever files hold them."""
    rows = (json.loads(line) for path in folder.rglob("*.jsonl") for line in path.read_text().splitlines())
    return [row for row in rows if "question_id" in row and "state" in row]


def test_paid_judgments_are_rated_and_nothing_is_asked(paper, billed):
    arranged = configured(paper, **billed.judge("anthropic"))
    lines = {name: paper.pay(JUDGE, name) for name in DIMENSIONS}
    ran = rate(arranged)
    assert ran.code == 0, ran.err
    assert billed.since() == billed.since("live_calls") == sum(billed._since().values()) == 0
    manifest = arranged.document("manifest.json")
    assert {name: counts["used"] for name, counts in manifest["paid_judgments"].items()} == {
        name: len(lines[name]) for name in DIMENSIONS
    }
    stored = {line["cache_key"]: line for some in lines.values() for line in some}
    rows = [row for row in question_rows(paper.root / "out") if row["state"] == "ok"]
    assert len(rows) == len(stored) == sum(len(some) for some in lines.values())
    for row in rows:
        line = stored[row["request_key"]]
        said = line["metadata"]
        first = said["entrant_b"] if said["position_swap"] else said["entrant_a"]
        assert (row["dimension"], row["prompt_id"], row["first"]) == (
            said["dimension"],
            said["prompt_id"],
            first,
        )
        assert (row["verdict"], row["reasoning"]) == (STEPS[line["verdict"]], line["reasoning"])
    arranged.done("verify", "out")


def test_judgments_of_other_texts_are_counted_and_not_used(paper, billed):
    arranged = configured(paper, **billed.judge("anthropic"))
    lines = paper.pay(JUDGE, "calibration")
    other = {**lines[0], "cache_key": "0" * 12, "judge_model": "somebody-else"}
    paper.write_judgments("calibration", [*lines, other, lines[5], lines[5]])
    changed = paper.root / "final_evals/elo/caches/responses" / f"responses_{ENTRANTS[0]}.jsonl"
    rows = changed.read_text().splitlines()
    first = {**json.loads(rows[0]), "response_text": "Changed since."}
    changed.write_text("\n".join([json.dumps(first), *rows[1:]]) + "\n")
    ran = rate(arranged)
    # The prompt's response met those of three entrants, in both orders.
    counts = {"used": 2 * PAIRS - 6, "unreadable": 0, "stale": 6, "other": 1, "replaced": 2}
    assert arranged.document("manifest.json")["paid_judgments"] == {"calibration": counts}
    assert "6 whose rubric" in ran.err
    assert sum(row["state"] == "ok" for row in question_rows(paper.root / "out")) == counts["used"]
    assert billed.since() == 0
    arranged.done("verify", "out")


def test_a_changed_rubric_makes_all_of_its_judgments_stale(paper):
    arranged = configured(paper)
    for name in DIMENSIONS[1:]:
        paper.pay(JUDGE, name)
    path = paper.root / "final_evals/elo/rubrics/calibration.txt"
    path.write_text(path.read_text() + "Be strict.\n")
    rate(arranged, "--limit-pairs", 12)
    counts = arranged.document("manifest.json")["paid_judgments"]
    nothing = {"used": 0, "unreadable": 0, "replaced": 0}
    assert counts["calibration"] == {**nothing, "stale": 24, "other": 2 * PAIRS - 24}
    assert counts["clinical_utility"]["used"] == 24


def test_a_tie_of_a_reply_without_a_verdict_is_no_tie(paper):
    arranged = configured(paper)
    lines = paper.pay(JUDGE, "calibration")
    ties = [line for line in lines[:24] if line["verdict"] == "TIE"]
    cut = {**ties[0], "reasoning": "I would say that"}
    paper.write_judgments("calibration", [cut if line is ties[0] else line for line in lines])
    rate(arranged, "--limit-pairs", 12)
    assert arranged.document("manifest.json")["paid_judgments"]["calibration"]["unreadable"] == 1
    states = {row["request_key"]: row["state"] for row in question_rows(paper.root / "out")}
    assert states[cut["cache_key"]] == "unparseable"
    assert [states[line["cache_key"]] for line in ties[1:]] == ["ok"] * (len(ties) - 1)
    arranged.done("verify", "out")
    # Where the file has verdicts apart from what the judge said, it is one.
    paper.write_judgments("calibration", [{**line, "reasoning": "Because."} for line in lines])
    rate(arranged, "--limit-pairs", 12, out="apart")
    assert sum(row["state"] == "ok" for row in question_rows(paper.root / "apart")) == 24


@pytest.mark.slow(but_every=4)
@pytest.mark.parametrize(
    "wrong", [{"verdict": "C"}, {"verdict": None}, {"cache_key": "xyz"}, {"reasoning": 5}]
)
def test_a_wrong_line_is_named(paper, wrong):
    arranged = configured(paper)
    lines = paper.pay(JUDGE, "calibration")
    paper.write_judgments("calibration", [*lines[:2], {**lines[2], **wrong}])
    ran = rate(arranged)
    assert ran.code == 2
    assert "judgments_calibration.jsonl, line 3" in ran.err
    assert next(iter(wrong)) in ran.err


@pytest.mark.slow
def test_a_last_line_that_was_cut_off_is_left_out(paper):
    arranged = configured(paper)
    lines = paper.pay(JUDGE, "calibration")
    path = paper.judgments / "judgments_calibration.jsonl"
    path.write_text(path.read_text()[:-20])
    ran = rate(arranged)
    assert "last line" in ran.err
    assert arranged.document("manifest.json")["paid_judgments"]["calibration"]["used"] == len(lines) - 1
    # In the middle it is damage.
    path.write_text(path.read_text() + "\n" + json.dumps(lines[0]) + "\n")
    assert rate(arranged, out="again").code == 2


@pytest.mark.slow
def test_the_prompts_of_a_pilot_can_be_named(paper):
    arranged = configured(paper)
    lines = paper.pay(JUDGE, "calibration")
    chosen = ["medqa_003", "curated_007"]
    paper.write_config(modes={"pilot": {"prompts": {"ids": chosen}}})
    ran = rate(arranged, mode="pilot")
    assert ran.code == 0, ran.err
    used = [line for line in lines if line["metadata"]["prompt_id"] in chosen]
    assert arranged.document("manifest.json")["paid_judgments"]["calibration"]["used"] == len(used) == 24
    paper.write_config(modes={"pilot": {"prompts": {"ids": ["medqa_999"]}}})
    ran = rate(arranged, mode="pilot", out="other")
    assert (ran.code, "medqa_999" in ran.err) == (2, True)


@pytest.mark.slow
def test_control_questions_are_no_reason_to_pay_again(paper):
    arranged = configured(paper)
    paper.write_config(checks={"identical": 2, "planted": 0})
    for name in DIMENSIONS:
        paper.pay(JUDGE, name)
    ran = rate(arranged, "--limit-pairs", 12)
    assert "6 control questions" in ran.err
    assert "without --skip-judging" not in ran.err


@pytest.mark.slow
def test_a_dimension_without_gold_answers_is_empty(paper):
    arranged = configured(paper)
    for name in DIMENSIONS:
        paper.pay(JUDGE, name)
    bank = paper.root / "final_evals/elo/prompts/bank.jsonl"
    rows = [{**json.loads(line), "gold_answer": None} for line in bank.read_text().splitlines()]
    bank.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = rate(arranged, "--limit-pairs", 12)
    assert (ran.code, "Elo of factuality" in ran.err) == (0, True)
    elo = arranged.document("elo_results.json")
    assert (elo["primary"]["factuality"], elo["n_decisive_matches"]["factuality"]) == ({}, 0)


def test_judges_are_asked_where_judging_is_not_skipped(paper, billed):
    arranged = configured(paper, **billed.judge("anthropic"), use_batch_api=False)
    paper.pay(JUDGE, "calibration")
    planned = arranged.done("plan", CONFIG, "--mode", "headline", "--limit-pairs", 3)
    assert "6 judgments that" in planned.err
    ran = arranged.done("run", CONFIG, "--mode", "headline", "--limit-pairs", 3, "--output-dir", "out")
    assert "6 judgments that" in ran.err
    assert billed.since() >= 3 * 3 * 2
    assert arranged.document("manifest.json")["paid_judgments"] == {}
    # Nothing is paid for again where the ledger has every reply.
    for command in (("run", "--output-dir", "again"), ("plan",)):
        known = arranged.done(command[0], CONFIG, "--mode", "headline", "--limit-pairs", 3, *command[1:])
        assert "another script" not in known.err
