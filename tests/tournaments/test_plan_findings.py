"""What a plan says before anything is paid: gold answers, reply forms of rubrics, prompt caches."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import yaml

from support.arranged import Arranged, arrange, read_lines, write_lines
from support.paper_tournament import DIMENSIONS, ENTRANTS, RESPONSES, SOURCES, make_paper_tournament
from support.run_folders import copied, edit_json, failed, rehash
from tiltyard.core.judging.question import Rubric
from tiltyard.errors import BadConfig
from tiltyard.runs.run_verification import verify_run
from tiltyard.settings.tournament_config import SHIPPED, shipped_rubric
from tiltyard.tournaments.preflight import plan_findings, rubric_findings


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
    forged = copied(tmp_path / "out", tmp_path / "forged")
    edit_json(forged / "manifest.json", lambda document: document["rubrics"]["mine"].update(needs=None))
    rehash(forged)
    assert {"configuration", "matches/matches.jsonl"} & set(failed(verify_run(forged)))
    # The resolved configuration leaves out the same prompts, and finds the rubric where it is.
    arranged.done("run", "out/config.yaml", "--output-dir", "again")
    assert (tmp_path / "out/battles.jsonl").read_bytes() == (tmp_path / "again/battles.jsonl").read_bytes()


def test_a_dimension_whose_gold_answers_nobody_answered_has_no_battles(tmp_path, billed):
    rubrics = {"factuality": {"needs": "gold"}, "calibration": {}}
    arranged = arrange(tmp_path, models=2, judge=billed.judge(), rubrics=rubrics)
    without_gold(arranged, "p0001", "p0002", "p0003")
    rows = read_lines(tmp_path / "answers.jsonl")
    write_lines(tmp_path / "answers.jsonl", rows[1:])
    arranged.done("run", arranged.config, "--output-dir", "out")
    assert {row["dimension"] for row in arranged.verdicts()} == {"calibration"}
    arranged.done("verify", "out")


def test_a_dimension_that_needs_gold_answers_and_has_none_is_an_error(tmp_path):
    arranged = without_gold(arrange(tmp_path, rubrics={"factuality": {"needs": "gold"}}))
    with pytest.raises(BadConfig, match=r"rubrics\.factuality\.needs"):
        arranged.prepared()


def findings(prepared):
    return [(one.name, one.values) for one in plan_findings(prepared.plan, prepared.mode)]


def papers(folder, **sections):
    """The tournament of the paper in fields of our own."""
    made = make_paper_tournament(folder)
    rubrics = {name: {"path": f"final_evals/elo/rubrics/{name}.txt"} for name in made.rubrics}
    document = {
        "entrants": [{"entrant_id": name} for name in ENTRANTS],
        "prompts": {"bank_path": "final_evals/elo/prompts/bank.jsonl"},
        "caches": {"responses_dir": RESPONSES},
        "rubrics": {**rubrics, "factuality": {**rubrics["factuality"], "needs": "gold"}},
        "judge": {"headline_model": "claude-opus-4-5", "prompt_cache": "1h"},
    }
    (folder / "tournament.yaml").write_text(yaml.safe_dump({**document, **sections}, sort_keys=False))
    return Arranged(folder)


def test_a_plan_says_how_many_prompts_have_a_gold_answer_and_what_their_rubrics_ask(tmp_path):
    arranged = papers(tmp_path)
    own = "end with one line: VERDICT: A, VERDICT: B or VERDICT: TIE."
    prompts, gold = sum(SOURCES.values()), SOURCES["medmcqa_open"] + SOURCES["medqa"]
    counts = {"gold": gold, "prompts": prompts, "more": 0}
    assert findings(arranged.prepared("headline")) == [
        ("gold-missing", {"case": "left-out", "dimensions": ("factuality",), **counts}),
        ("gold-missing", {"case": "judged", "dimensions": ("calibration",), **counts}),
        *(("own-reply-form", {"dimension": name, "words": own}) for name in DIMENSIONS),
    ]
    ran = arranged.done("plan", arranged.config, "--mode", "headline")
    assert f"{gold} of {prompts} prompts have a gold answer" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("text", "case"),
    [
        ("Compare both with the reference answer.", "words"),
        ("Which agrees with {{gold_answer}}?", "words"),
        ("Which is right?", "needs"),
    ],
)
def test_a_rubric_that_is_shown_no_gold_answer_is_told_before_anything_is_paid(tmp_path, billed, text, case):
    (tmp_path / "mine.txt").write_text(f"# version: v1\n{text}\n")
    rubrics = {"mine": {"path": "mine.txt", "needs": "gold" if case == "needs" else None}}
    arranged = arrange(tmp_path, judge=billed.judge(), rubrics=rubrics)
    [(name, values)] = findings(arranged.prepared())
    assert (name, values["dimension"], values["case"]) == ("gold-not-shown", "mine", case)
    assert "gold-not-shown" in arranged.done("plan", arranged.config).out
    assert billed.since() == 0
    ran = arranged.done("run", arranged.config, "--output-dir", "out")
    assert ran.err.index("# uses: gold") < ran.err.index("calls")
    (tmp_path / "mine.txt").write_text(f"# version: v1\n# uses: gold\n{text}\n")
    assert findings(arranged.prepared()) == []


@pytest.mark.parametrize(
    "words",
    [
        "VERDICT: TIE",
        "**Verdict:** A",
        "[[B]]",
        '{"winner": "A"}',
        "Respond only with A, B or TIE",
        "Answer with a JSON object",
        "Rate each response on a scale of 1 to 10",
        "Finish with the verdict",
    ],
)
def test_a_reply_form_of_the_rubrics_own_is_a_finding(words):
    [finding] = rubric_findings(Rubric("mine", "v1", f"Which is right?\n{words}\nThat is all."))
    assert (finding.name, finding.values["dimension"]) == ("own-reply-form", "mine")
    assert finding.values["words"] in words


@pytest.mark.parametrize(
    "words",
    [
        "VERDICT: A>B",
        "Responses that end with an offer of help gain nothing",
        "Does it return valid JSON, as asked?",
        "a heart rate from 60 to 100",
        "the gold standard of care, with references",
        "Which is the better answer, A or B?",
    ],
)
def test_criteria_are_no_reply_form_and_no_gold_answer(words):
    assert list(rubric_findings(Rubric("mine", "v1", words))) == []


@pytest.mark.parametrize("dimension", SHIPPED)
def test_shipped_rubrics_have_no_findings(dimension):
    rubric = shipped_rubric(dimension)
    assert list(rubric_findings(replace(rubric, gold=False))) == []


@pytest.mark.parametrize(
    ("mode", "cache", "prewarm", "case"),
    [
        ("headline", "off", True, "cache"),
        ("headline", "1h", False, "prewarm"),
        ("headline", "1h", True, None),
        ("headline", "off", False, None),
        ("pilot", "1h", False, None),
    ],
)
def test_prompt_caching_and_pre_warming_go_together(tmp_path, mode, cache, prewarm, case):
    judge = {"provider": "anthropic", "base_url": "http://127.0.0.1:9", "prompt_cache": cache}
    arranged = arrange(tmp_path, judge=judge, modes={mode: {"prewarm": prewarm}})
    values = {"case": case, "judges": ("judge-1",), "more": 0}
    expected = [] if case is None else [("prompt-cache-incomplete", values)]
    assert findings(arranged.prepared(mode)) == expected
    arranged.change(judge={**judge, "provider": "openai", "headline_model": "m", "pilot_model": "m"})
    assert findings(arranged.prepared(mode)) == []
