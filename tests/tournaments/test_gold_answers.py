"""Gold answers in a tournament: which prompts have one, and which dimensions need one."""

from __future__ import annotations

from collections import Counter

import pytest

from support.arranged import arrange, read_lines, write_lines
from tiltyard.errors import BadConfig


def without_gold(arranged, *names):
    """Take the gold answers from these prompts, or from all."""
    rows = read_lines(arranged.folder / "prompts.jsonl")
    for row in rows:
        if not names or row["prompt_id"] in names:
            del row["gold"]
    write_lines(arranged.folder / "prompts.jsonl", rows)
    return arranged


def test_a_dimension_that_needs_gold_answers_leaves_the_other_prompts_out(tmp_path, billed):
    (tmp_path / "mine.txt").write_text("# version: v1\nWhich agrees with this?\n{gold_answer}\n")
    rubrics = {"mine": {"path": "mine.txt", "needs": "gold"}, "factuality": {"needs": None}}
    arranged = without_gold(arrange(tmp_path, judge=billed.judge(), rubrics=rubrics), "p0001", "p0003")
    arranged.done("run", arranged.config, "--output-dir", "out")
    asked = Counter((row["dimension"], row["prompt_id"]) for row in arranged.verdicts())
    assert asked == {
        **{("mine", prompt): 6 for prompt in ("p0000", "p0002")},
        **{("factuality", f"p000{k}"): 6 for k in range(4)},
    }
    assert arranged.document("manifest.json")["rubrics"]["mine"]["needs"] == "gold"
    arranged.done("verify", "out")
    # The resolved configuration leaves out the same prompts, and finds the rubric where it is.
    arranged.done("run", "out/config.yaml", "--output-dir", "again")
    assert (tmp_path / "out/battles.jsonl").read_bytes() == (tmp_path / "again/battles.jsonl").read_bytes()


def test_a_dimension_that_needs_gold_answers_and_has_none_is_an_error(tmp_path):
    arranged = without_gold(arrange(tmp_path, rubrics={"factuality": {"needs": "gold"}}))
    with pytest.raises(BadConfig, match=r"rubrics\.factuality\.needs"):
        arranged.prepared()
