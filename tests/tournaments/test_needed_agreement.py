"""From a tournament to people's labels, and to a headline run that is refused or allowed by them."""

from __future__ import annotations

import csv
import json

import pytest

from support.arranged import arrange
from tiltyard.tournaments.needed_agreement import labels_to_prove


def _fill(sheet, run, *, agreeing):
    """Say what the judge said in all but each so many items."""
    winners = {}
    for line in (run / "battles.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        winners[row["question_id"], row["model_a"], row["model_b"]] = row["winner"]
    answers = {}
    for line in (run / "answers.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        answers[row["prompt"], row["response"]] = row["model"], row["prompt_id"]
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        (one, prompt), (other, _) = (answers[row["prompt"], row[f"response_{k}"]] for k in (1, 2))
        winner = winners.get((prompt, one, other)) or winners[prompt, other, one]
        first = "model_a" if (prompt, one, other) in winners else "model_b"
        said = "tie" if winner == "tie" else "1" if winner == first else "2"
        row["better"] = said if number % 10 < agreeing else {"1": "2", "2": "tie", "tie": "1"}[said]
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_a_headline_run_needs_a_judge_that_people_agree_with(tmp_path, billed):
    arranged = arrange(tmp_path, models=3, prompts=20, dimensions=1, judge=billed.judge())
    headline = ("run", arranged.config, "--mode", "headline", "--needs-agreement", 0.6)
    refused = arranged.call(*headline)
    assert refused.code == 2
    assert "about 50 labels" in refused.err
    assert billed.since() == 0
    assert "50 labels" in arranged.call("plan", arranged.config, "--needs-agreement", 0.6).err

    arranged.done("run", arranged.config, "--output-dir", "pilot")
    sheet, proof = tmp_path / "labels.csv", tmp_path / "agreement.json"
    for agreeing, code in ((10, 0), (6, 2)):
        sheet.unlink(missing_ok=True)
        arranged.done("agree", "pilot", "--to", sheet, "--labels", 50)
        _fill(sheet, tmp_path / "pilot", agreeing=agreeing)
        proof.write_text(arranged.done("agree", "pilot", sheet, "--json").out, encoding="utf-8")
        assert arranged.call(*headline, "--agreement", proof, "--output-dir", f"of-{agreeing}").code == code
    arranged.done("verify", "of-10")


@pytest.mark.slow(but="judges")
@pytest.mark.parametrize("change", ["judges", "rubrics"])
def test_a_proof_of_another_judge_or_rubric_does_not_count(tmp_path, billed, change):
    arranged = arrange(tmp_path, models=3, prompts=20, dimensions=1, judge=billed.judge())
    arranged.done("run", arranged.config, "--output-dir", "pilot")
    sheet, proof = tmp_path / "labels.csv", tmp_path / "agreement.json"
    arranged.done("agree", "pilot", "--to", sheet, "--labels", 50)
    _fill(sheet, tmp_path / "pilot", agreeing=10)
    document = json.loads(arranged.done("agree", "pilot", sheet, "--json").out)
    checked = ("plan", arranged.config, "--needs-agreement", 0.6, "--agreement", proof)
    proof.write_text(json.dumps(document), encoding="utf-8")
    assert "would refuse" not in arranged.done(*checked).err
    document["proves"] |= {"judges": ["another"]} if change == "judges" else {"rubrics": {}}
    proof.write_text(json.dumps(document), encoding="utf-8")
    assert "would refuse" in arranged.done(*checked).err


def test_what_is_no_proof_and_no_share_is_refused(tmp_path, billed):
    arranged = arrange(tmp_path, models=3, prompts=4, dimensions=1, judge=billed.judge())
    (tmp_path / "agreement.json").write_text("{}", encoding="utf-8")
    assert arranged.call("plan", arranged.config, "--needs-agreement", 0.6).code == 2
    assert arranged.call("plan", arranged.config, "--needs-agreement", 60).code == 2


def test_labels_to_prove_grow_as_the_judge_comes_near():
    counts = [labels_to_prove(0.6, share) for share in (0.95, 0.8, 0.7, 0.65)]
    assert counts == sorted(counts)
    assert labels_to_prove(0.6, 0.6) is None
