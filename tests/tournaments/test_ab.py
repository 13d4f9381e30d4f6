"""Is B better than A? By scores, and by a judge that is asked until it is decided."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest

import tiltyard
from support.arranged import Arranged, killing, write_lines
from support.servers.paid_llm import paid_llm
from tiltyard.core.ratings.findings import Finding
from tiltyard.errors import BadOption, InputError
from tiltyard.judges.ledger import Ledger
from tiltyard.runs.ab_lead import points, slot_preference
from tiltyard.runs.tournament_files import write_judged_run
from tiltyard.tournaments import tournament_run


def log(folder, name, count=60, *, model="m", score=None, word=lambda _: "", repeats=1):
    rows = [
        {
            "prompt_id": f"q{k}",
            "prompt": f"Question {k}?",
            "model": model,
            "response": f"The answer to {k}, try {repeat}{word(k)}.",
            "repeat": repeat,
            **({} if score is None else {"scores": {"accuracy": score(k), "length": float(k % 7)}}),
        }
        for k in range(count)
        for repeat in range(repeats)
    ]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def ab(folder, *arguments):
    return Arranged(folder).call("ab", *arguments)


def judge_options(billed, model="likes-fine"):
    return "--judge", model, "--base-url", billed.server.openai, "--price", f"{model}=3,15"


def judged(folder, billed, *arguments, model="likes-fine"):
    return ab(folder, "a.jsonl", "b.jsonl", *judge_options(billed, model), *arguments)


class TestScores:
    def test_the_four_decisions_and_their_codes(self, tmp_path):
        a = log(tmp_path, "a.jsonl", score=lambda k: float(k % 3 == 0))
        b = log(tmp_path, "b.jsonl", score=lambda k: float(k % 3 != 1))
        near = log(tmp_path, "near.jsonl", score=lambda k: float(k % 3 == 0 or k == 1))
        better = ab(tmp_path, a, b, "--score", "accuracy")
        assert (better.code, better.err) == (0, "")
        assert "b − a: +0.333 accuracy (95% interval +" in better.out
        assert "60 samples like these" in better.out
        assert "b is better" in better.out
        worse = ab(tmp_path, b, a, "--score", "accuracy")
        assert (worse.code, "a is worse" in worse.out) == (1, True)
        same = ab(tmp_path, a, near, "--score", "accuracy", "--margin", 0.2)
        assert (same.code, "within ±0.2" in same.out) == (0, True)
        undecided = ab(tmp_path, a, near, "--score", "accuracy")
        assert undecided.code == 5
        assert "samples would tell" in undecided.out

    def test_what_is_sure_but_within_the_margin_is_the_same(self, tmp_path):
        a = log(tmp_path, "a.jsonl", score=lambda k: 1.0 - 0.01 * (k % 3))
        b = log(tmp_path, "b.jsonl", score=lambda k: 0.9 - 0.01 * (k % 5))
        assert ab(tmp_path, a, b, "--score", "accuracy").code == 1
        same = ab(tmp_path, a, b, "--score", "accuracy", "--margin", 0.3)
        assert (same.code, "within ±0.3" in same.out) == (0, True)

    def test_lower_may_be_better(self, tmp_path):
        a = log(tmp_path, "a.jsonl", score=lambda k: 3.0 + k % 3)
        b = log(tmp_path, "b.jsonl", score=lambda k: 1.0 + k % 2)
        ran = ab(tmp_path, a, b, "--score", "accuracy", "--lower-is-better")
        assert (ran.code, "b is better" in ran.out) == (0, True)
        assert "60 samples like" in ran.out
        assert ab(tmp_path, b, a, "--score", "accuracy", "--lower-is-better").code == 1
        found = tiltyard.ab(tmp_path / a, tmp_path / b, score="accuracy", lower_is_better=True)
        assert (found.decision, found.to_dict()["lower_is_better"]) == ("better", True)
        assert "better | −2" in found.to_markdown()
        refused = ab(tmp_path, a, b, "--judge", "x", "--lower-is-better")
        assert (refused.code, "comparison without --judge" in refused.err) == (2, True)

    def test_the_results_of_lm_eval_say_what_is_better(self, tmp_path):
        for name, loss in (("base", 4.0), ("cand", 1.0)):
            folder = tmp_path / name
            folder.mkdir()
            rows = [
                {"doc_id": k, "resps": [["x"]], "filtered_resps": ["x"], "filter": "none"}
                | {
                    "arguments": [[f"Q{k}", ""]],
                    "metrics": ["loss"],
                    "loss": loss + k % (2 if name == "base" else 3),
                }
                for k in range(40)
            ]
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / "samples_t_2026-01-01T00-00-00.0.jsonl").write_text(lines)
            results = {"model_name": name, "higher_is_better": {"t": {"loss": False}}}
            (folder / "results_2026-01-01T00-00-00.0.json").write_text(json.dumps(results))
        ran = ab(tmp_path, "base", "cand")
        assert (ran.code, "(lower is better)" in ran.out) == (0, True), ran.err
        sample = "samples_t_2026-01-01T00-00-00.0.jsonl"
        assert ab(tmp_path, f"cand/{sample}", f"base/{sample}").code == 1

    def test_copies_of_a_score_are_compared_once(self):
        """As in promptfoo, where a test's score, success and metric say the same; not if lower is better of one."""

        def rows(wins):
            names = ("scores.sum", "score", "scores.error")
            return [
                {"prompt": f"Q{k}", "response": "x", "scores.len": k % 7.0}
                | dict.fromkeys(names, float(k % wins == 0))
                for k in range(60)
            ]

        found = tiltyard.ab(rows(4), rows(2), lower=["error"])
        assert (found.name_a, found.name_b) == ("A", "B")
        kept = next(one.unit for one in found.comparisons if one.unit in {"sum", "score"})
        assert {one.unit for one in found.comparisons} == {kept, "error", "len"}
        assert [one.level for one in found.comparisons] == pytest.approx([1.0 - 0.05 / 3] * 3)
        assert any(
            {"sum", "score"} <= set(re.findall(r"\w+", note.partition(":")[0])) for note in found.notes
        )
        named = tiltyard.ab(rows(4), rows(2), score=["sum", "score"])
        assert [one.unit for one in named.comparisons] == ["sum", "score"]

    def test_samples_without_a_partner_are_said(self, tmp_path):
        a = log(tmp_path, "a.jsonl", 30, score=lambda k: 1.0 * (k % 2))
        b = log(tmp_path, "b.jsonl", 31, score=lambda _: 1.0)
        assert "30 samples like" in (ab(tmp_path, a, b, "--score", "accuracy").out)
        rows = [json.loads(line) for line in (tmp_path / b).read_text().splitlines()]
        (tmp_path / b).write_text("".join(json.dumps(row) + "\n" for row in rows[10:]))
        found = json.loads(ab(tmp_path, a, b, "--score", "accuracy", "--json").out)
        assert (found["compared"], found["only_in_a"], found["only_in_b"]) == (20, 10, 1)
        assert found["mean_b"] == 1.0

    def test_an_interval_stays_in_the_range_of_the_scores(self, tmp_path):
        a = log(tmp_path, "a.jsonl", 2, score=float)
        b = log(tmp_path, "b.jsonl", 2, score=lambda k: float(1 - k))
        found = tiltyard.ab(tmp_path / a, tmp_path / b, score="accuracy")
        assert (found.low, found.high) == (-1.0, 1.0)
        wide = log(tmp_path, "wide.jsonl", 2, score=lambda k: 2.0 * k)
        assert tiltyard.ab(tmp_path / a, tmp_path / wide, score="accuracy").high > 1.0

    def test_bounds_are_those_of_the_score_and_not_of_its_values(self, tmp_path):
        # All samples are right on both sides: successes and failures, whatever is seen of them.
        a = log(tmp_path, "a.jsonl", 200, score=lambda _: 1.0)
        b = log(tmp_path, "b.jsonl", 200, score=lambda _: 1.0)
        same = ab(tmp_path, a, b, "--score", "accuracy", "--margin", 0.02)
        assert (same.code, "within ±0.02" in same.out) == (0, True), same.out
        for name in (a, b):
            (tmp_path / name).write_text((tmp_path / name).read_text().replace("1.0", "4.5"))
        unknown = ab(tmp_path, a, b, "--score", "accuracy", "--margin", 0.1)
        assert (unknown.code, "--bounds" in unknown.out) == (5, True)
        bounded = ab(tmp_path, a, b, "--score", "accuracy", "--margin", 0.1, "--bounds", "1,5")
        assert (bounded.code, "within ±0.1" in bounded.out) == (0, True)
        for bounds in ("1,4", "5,1", "1"):
            refused = ab(tmp_path, a, b, "--score", "accuracy", "--bounds", bounds)
            assert (refused.code, "--bounds" in refused.err) == (2, True)

    def test_not_worse_is_said_and_enough_for_a_release(self, tmp_path):
        a = log(tmp_path, "a.jsonl", 200, score=lambda k: float(k % 10 > 0))
        b = log(tmp_path, "b.jsonl", 200, score=lambda k: float(k % 20 > 0 or k < 40))
        found = ab(tmp_path, a, b, "--score", "accuracy", "--margin", 0.02)
        assert found.code == 0
        near = log(tmp_path, "near.jsonl", 200, score=lambda k: float(k % 10 > 0 or k == 50))
        options = ("--score", "accuracy", "--margin", 0.015, "--json")
        ran = ab(tmp_path, a, near, *options)
        report = json.loads(ran.out)
        assert (ran.code, report["decision"]) == (0, "not worse")
        assert report["low"] >= -0.015
        assert report["high"] > 0.015
        assert report["more"] > 0
        assert json.loads(ab(tmp_path, a, near, *options, "--goal", "not-worse").out)["more"] is None
        # The other way round it may be worse.
        assert json.loads(ab(tmp_path, near, a, *options).out)["decision"] == "undecided"
        refused = ab(tmp_path, a, near, "--score", "accuracy", "--goal", "not-worse")
        assert (refused.code, "--margin" in refused.err) == (2, True)

    def test_samples_that_come_in_passages_are_compared_as_passages(self, tmp_path):
        """One model answers the questions of some passages, the other those of others."""

        def passages(name, better):
            log(tmp_path, name, 400, score=lambda k: float(k % 5 < (4 if k // 25 in better else 1)))
            rows = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
            for k, row in enumerate(rows):
                row["passage"] = f"text {k // 25}"
            (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
            return name

        a, b = passages("a.jsonl", {0, 1, 2}), passages("b.jsonl", {4, 5, 6, 7, 8, 9, 10, 11})
        alone = ab(tmp_path, a, b, "--score", "accuracy", "--cluster", "prompt")
        assert (alone.code, alone.err) == (0, "")
        told = ab(tmp_path, a, b, "--score", "accuracy")
        assert (told.code, "--cluster passage" in told.err) == (5, True)
        chosen = ab(tmp_path, a, b, "--score", "accuracy", "--cluster", "passage")
        assert (chosen.out, chosen.err) == (told.out, "")
        refused = ab(tmp_path, a, b, "--score", "accuracy", "--cluster", "chapter")
        assert (refused.code, "400 of 400 prompts" in refused.err) == (2, True)

    def test_few_clusters_decide_nothing(self):
        sides = [
            [
                {"prompt_id": f"q{k}", "prompt": f"Q {k}?", "model": name, "response": "x"}
                | {"category": f"topic {k % 4}", "scores": {"accuracy": float(k % 10 < share)}}
                for k in range(200)
            ]
            for name, share in (("a", 2), ("b", 8))
        ]
        assert tiltyard.ab(*sides, score="accuracy").decision == "better"
        clustered = tiltyard.ab(*sides, score="accuracy", cluster="category")
        assert (clustered.decision, clustered.to_dict()["low"]) == ("undecided", None)
        assert "clusters" in clustered.verdict

    def test_scales_that_seem_to_differ_are_noted(self, tmp_path):
        a = log(tmp_path, "a.jsonl", score=lambda k: (k % 5) / 4)
        b = log(tmp_path, "b.jsonl", score=lambda k: 25.0 * (k % 5))
        ran = ab(tmp_path, a, b, "--score", "accuracy")
        assert "scales seem" in ran.err

    def test_all_common_scores_are_compared_if_none_is_chosen(self, tmp_path):
        for name in ("a.jsonl", "b.jsonl"):
            log(tmp_path, name, score=lambda _: 1.0)
            (tmp_path / name).write_text((tmp_path / name).read_text().replace('"accuracy"', '"score"'))
        ran = ab(tmp_path, "a.jsonl", "b.jsonl")
        assert ran.code == 5
        assert "score, length; --score" in ran.err

    def test_the_same_id_with_another_prompt_is_another_sample(self, tmp_path):
        def asked(name, wrong, **more):
            log(tmp_path, name, score=lambda k: k % 2)
            rows = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
            for k, row in enumerate(rows):
                row.update({"prompt": f"Other {k}?"} if k < wrong else {})
                row.update({field: str(value(k)) for field, value in more.items()})
            (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
            return name

        a = asked("a.jsonl", 0)
        some = ab(tmp_path, a, asked("some.jsonl", 2), "--score", "accuracy")
        assert "2 samples have" in some.err
        assert "58 samples like these" in some.out
        one = ab(tmp_path, a, asked("one.jsonl", 1), "--score", "accuracy")
        assert "1 sample has" in one.err
        most = ab(tmp_path, a, asked("most.jsonl", 31), "--score", "accuracy")
        assert most.code == 2
        assert "60 samples have" in most.err
        assert "'Question" in most.err
        # The prompts were edited: the targets are the same.
        before, after = asked("before.jsonl", 0, gold=str), asked("after.jsonl", 60, gold=str)
        assert "60 samples like these" in ab(tmp_path, before, after, "--score", "accuracy").out
        # Prompts of promptfoo and lm-evaluation-harness are made of the data that the id names.
        before = asked("before.jsonl", 0, source=lambda _: "promptfoo")
        after = asked("after.jsonl", 60, source=lambda _: "promptfoo")
        assert "60 samples like these" in ab(tmp_path, before, after, "--score", "accuracy").out

    def test_the_same_file_twice_is_noted(self, tmp_path):
        a = log(tmp_path, "a.jsonl", score=lambda k: k % 2)
        (tmp_path / "copy.jsonl").write_bytes((tmp_path / a).read_bytes())
        (tmp_path / "blank.jsonl").write_text((tmp_path / a).read_text() + "\n")
        for other, said in (
            (a, "are the same file"),
            ("copy.jsonl", "are the same file"),
            ("blank.jsonl", "have the same answers"),
        ):
            assert f"A and B {said}.\n" in ab(tmp_path, a, other, "--score", "accuracy").err

    def test_a_score_that_is_not_a_number_is_missing(self, tmp_path):
        a = log(tmp_path, "a.jsonl", score=lambda k: k % 2)
        b = log(tmp_path, "b.jsonl", score=lambda k: float("nan") if k == 3 else 1.0)
        ran = ab(tmp_path, a, b, "--score", "accuracy")
        assert ran.code == 0
        assert "b.jsonl: 1 left" in ran.err
        assert "59 samples like" in ran.out

    def test_scores_in_tables(self, tmp_path):
        def table(name, header, cell):
            rows = [f'{k},Question {k}?,Answer,"{cell(k)}"' for k in range(40)]
            (tmp_path / name).write_text("\n".join([f"id,prompt,response,{header}", *rows]))
            return name

        a = table("a.csv", "score", lambda k: k % 2)
        words = ab(tmp_path, a, table("b.csv", "score", lambda _: "pass"))
        assert (words.code, words.err) == (0, "")
        other = ab(tmp_path, a, table("b.csv", "accuracy", lambda _: 1))
        assert "accuracy" in other.err
        unknown = ab(tmp_path, a, table("b.csv", "quality", lambda _: 1))
        assert "response, quality)" in unknown.err
        text = ab(tmp_path, a, table("b.csv", "score", lambda _: "good"))
        assert text.code == 2
        assert "'good'" in text.err

    def test_repeats_of_a_sample_are_one_sample(self, tmp_path):
        a = log(tmp_path, "a.jsonl", 20, score=lambda k: float(k % 3 == 0), repeats=10)
        b = log(tmp_path, "b.jsonl", 20, score=lambda k: float(k % 3 == 0 or k % 4 == 0), repeats=10)
        found = json.loads(ab(tmp_path, a, b, "--score", "accuracy", "--json").out)
        assert (found["compared"], found["decision"]) == (20, "undecided")
        assert found["notes"] == ["20 samples have repeats; they were averaged"]

    def test_a_comment_for_a_pull_request(self, tmp_path):
        a = log(tmp_path, "a.jsonl", score=lambda _: 0.0, model="a|b")
        b = log(tmp_path, "b.jsonl", score=lambda k: 1.0 * (k > 3), model="<img>", repeats=2)
        assert ab(tmp_path, a, b, "--score", "accuracy", "--comment", "c.md").code == 0
        text = (tmp_path / "c.md").read_text()
        assert text.startswith("✅ **&#60;img&#62; is better than a&#124;b.**")
        assert "| compared | 60 |" in text
        assert "| mean b | 0.9333 |" in text
        assert "60 samples have" in text

    def test_what_cannot_be_compared_is_said(self, tmp_path):
        log(tmp_path, "a.jsonl", score=lambda _: 1.0)
        log(tmp_path, "b.jsonl", score=lambda _: 1.0)
        log(tmp_path, "plain.jsonl")
        log(tmp_path, "two.jsonl", model="n", score=lambda _: 1.0)
        (tmp_path / "two.jsonl").write_text(
            (tmp_path / "a.jsonl").read_text() + (tmp_path / "two.jsonl").read_text()
        )
        log(tmp_path, "other.jsonl", score=lambda _: 1.0)
        (tmp_path / "other.jsonl").write_text((tmp_path / "other.jsonl").read_text().replace('"q', '"z'))
        for other, options, said in (
            ("b.jsonl", "--score f1", "in both: accuracy, length"),
            ("plain.jsonl", "", "--judge MODEL"),
            ("two.jsonl", "", "(m, n)"),
            ("other.jsonl", "--score accuracy", "same task?"),
            ("b.jsonl", "--rubric factuality", "need --judge MODEL"),
            ("b.jsonl", "--judge x --score accuracy", "--score is for"),
            ("b.jsonl", "--judge x --rubric nope", "neither a file"),
        ):
            ran = ab(tmp_path, "a.jsonl", other, *options.split())
            assert (ran.code, said in ran.err) == (2, True), ran.err


def scored(folder, name, *, count=200, model=None, **scores):
    """A file of one model whose scores are functions of the sample."""
    rows = [
        {"prompt_id": f"q{k}", "prompt": f"Question {k}?", "model": model or name, "response": "x"}
        | {"scores": {score: float(value(k)) for score, value in scores.items()}}
        for k in range(count)
    ]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"{name}.jsonl"


class TestFamilies:
    """Several scores, candidates and guards at once."""

    def test_every_common_score_is_compared_at_one_level(self, tmp_path):
        a = scored(tmp_path, "a", acc=lambda k: k % 2, f1=lambda k: k % 5 / 4, only=lambda k: k)
        b = scored(tmp_path, "b", acc=lambda k: k % 4 > 0, f1=lambda k: (k + 1) % 5 / 4)
        ran = ab(tmp_path, a, b, "--json")
        found = json.loads(ran.out)
        # One better score is enough, if none is worse.
        assert (ran.code, found["decision"], found["unit"]) == (0, "better", "acc")
        assert [one["unit"] for one in found["comparisons"]] == ["acc", "f1"]
        assert [one["decision"] for one in found["comparisons"]] == ["better", "undecided"]
        assert found["level"] == 0.975
        assert "acc, f1; --score" in ran.err
        alone = json.loads(ab(tmp_path, a, b, "--json", "--score", "f1").out)
        assert alone["level"] == 0.95
        assert alone["high"] < found["comparisons"][1]["high"]
        both = json.loads(ab(tmp_path, a, b, "--json", "--score", "f1", "--score", "acc").out)
        assert both["comparisons"] == found["comparisons"][::-1]
        assert ab(tmp_path, b, a).code == 1
        # What a margin is stated for must be shown to be within it.
        assert ab(tmp_path, a, b, "--margin", 0.05).code == 5
        assert ab(tmp_path, a, b, "--margin", 0.3).code == 0

    @pytest.mark.parametrize(
        ("right", "margin", "code", "decision"),
        [
            (lambda k: k % 10 > 0, 0.1, 0, "better"),
            # The guard is not shown to hold, is worse, or holds as it is better.
            (lambda k: k % 10 > 0, 0.0, 5, "undecided"),
            (lambda k: k % 10 > 2, 0.1, 1, "guard failed"),
            (lambda k: k % 10 > 2, 0.4, 0, "better"),
            (lambda _: True, 0.0, 0, "better"),
        ],
    )
    def test_a_guard_must_not_be_worse_by_more_than_its_margin(self, tmp_path, right, margin, code, decision):
        a = scored(tmp_path, "a", acc=lambda k: k % 2, safe=lambda k: k % 10 > 0)
        b = scored(tmp_path, "b", acc=lambda k: k % 4 > 0, safe=right)
        ran = ab(tmp_path, a, b, "--guard", f"safe={margin}", "--json")
        found = json.loads(ran.out)
        assert (ran.code, found["decision"]) == (code, decision), ran.err
        assert [one["guard"] for one in found["comparisons"]] == [False, True]
        same = tiltyard.ab(tmp_path / a, tmp_path / b, score="acc", guard={"safe": margin})
        assert same.decision == decision
        if not margin:
            assert tiltyard.ab(tmp_path / a, tmp_path / b, guard="safe").decision == decision

    def test_less_is_better_of_some(self, tmp_path):
        a = scored(tmp_path, "a", acc=lambda k: k % 2, cost=lambda k: 2 + k % 3, WER=lambda k: k % 3)
        b = scored(tmp_path, "b", acc=lambda k: k % 4 > 0, cost=lambda k: 1 + k % 2, WER=lambda k: 2 + k % 2)
        decisions = {
            one.unit: one.decision
            for one in tiltyard.ab(tmp_path / a, tmp_path / b, lower="cost").comparisons
        }
        # Of a word error rate less is better by its name.
        assert decisions == {"acc": "better", "cost": "better", "WER": "worse"}
        options = ("--score", "acc", "--guard", "cost=0.1")
        assert ab(tmp_path, a, b, *options, "--lower", "cost").code == 0
        assert ab(tmp_path, a, b, *options).code == 1
        for option in (("--lower", "coast"), ("--guard", "coast=1"), ("--guard", "cost=-1")):
            refused = ab(tmp_path, a, b, "--score", "acc", *option)
            assert (refused.code, option[0] in refused.err) == (2, True)

    def test_several_candidates_are_compared_with_one_baseline(self, tmp_path):
        names = [
            scored(tmp_path, name, acc=right)
            for name, right in (
                ("base", lambda k: k % 2),
                ("good", lambda k: k % 4 > 0),
                ("near", lambda k: k % 2 or k == 4),
                ("poor", lambda k: k % 8 == 0),
            )
        ]
        ran = ab(tmp_path, *names, "--comment", "c.md")
        assert (ran.code, len(ran.out.splitlines())) == (1, 4 + 1 + 3)
        assert (tmp_path / "c.md").read_text().count("\n| ") == 4
        found = json.loads(ab(tmp_path, *names, "--json").out)
        assert [tuple(one.values()) for one in found["candidates"]] == [
            ("good", "better"),
            ("near", "undecided"),
            ("poor", "worse"),
        ]
        assert found["level"] == pytest.approx(1 - 0.05 / 3)
        assert ab(tmp_path, *names[:3]).code == 5
        assert ab(tmp_path, *names[:2]).code == 0
        # A repeated name is that of the file.
        same = [scored(tmp_path, name, model="m", acc=lambda k: k % 2) for name in ("x", "y", "z")]
        report = tiltyard.ab(*(tmp_path / name for name in same))
        assert [report.name_a, *(one.name_b for one in report.candidates)] == ["x", "y", "z"]

    def test_the_models_of_one_file_are_chosen(self, tmp_path):
        for name, right in (("x", lambda k: k % 2), ("y", lambda k: k % 4 > 0), ("z", lambda k: k % 8 == 0)):
            scored(tmp_path, name, acc=right)
        (tmp_path / "all.jsonl").write_text(
            "".join((tmp_path / f"{name}.jsonl").read_text() for name in "xyz")
        )
        ran = ab(tmp_path, "all.jsonl", "--a", "x", "--b", "y")
        assert ran.code == 0
        assert ran.out == ab(tmp_path, "x.jsonl", "y.jsonl").out
        every = tiltyard.ab(tmp_path / "all.jsonl", a="x")
        assert [one.name_b for one in every.candidates] == ["y", "z"]
        assert ab(tmp_path, "x.jsonl", "all.jsonl", "--b", "z").code == 1
        for arguments, said in (
            (["all.jsonl"], "--a MODEL"),
            (["x.jsonl", "all.jsonl"], "--b MODEL"),
            (["all.jsonl", "--a", "x", "--b", "w"], "x, y, z"),
            (["x.jsonl"], "x.jsonl"),
        ):
            refused = ab(tmp_path, *arguments)
            assert (refused.code, said in refused.err) == (2, True), refused.err

    def test_the_files_of_a_folder_are_runs_of_the_same_samples(self, tmp_path):
        (tmp_path / "runs").mkdir()
        a = scored(tmp_path, "a", acc=lambda k: k % 2)
        for run in range(3):
            name = f"runs/{run}"
            scored(tmp_path, name, model="m", acc=lambda k, run=run: (k + run) % 3 == 0)
        # A truncated answer of one run is replaced by no other run.
        path = tmp_path / "runs/0.jsonl"
        path.write_text(path.read_text().replace('"response": "x"', '"response": "x", "truncated": true'))
        found = tiltyard.ab(tmp_path / a, tmp_path / "runs")
        assert (found.compared, found.details["mean_b"]) == (200, pytest.approx(1 / 3))
        one = tiltyard.ab(tmp_path / a, tmp_path / "runs/1.jsonl")
        assert found.high - found.low < one.high - one.low

    @pytest.mark.slow
    def test_a_column_for_each_model_is_judged(self, tmp_path, billed):
        lines = [f"q{k},Question {k}?,A poor one {k},A fine one {k},0.5" for k in range(40)]
        (tmp_path / "wide.csv").write_text("\n".join(["id,prompt,old,new,score", *lines]))
        chosen = ("wide.csv", "--a", "old", "--b", "new")
        found = json.loads(ab(tmp_path, *chosen, *judge_options(billed), "--json").out)
        assert (found["a"], found["b"], found["decision"]) == ("old", "new", "better")
        # The score of a row is no model's.
        assert ab(tmp_path, *chosen).code == 2

    @pytest.mark.slow
    def test_a_budget_is_for_all_candidates_together(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 60, word=lambda _: " poor")
        for name in "bc":
            log(
                tmp_path,
                f"{name}.jsonl",
                60,
                model=name,
                word=lambda k, of=name: f" fine {of}" if k % 3 else of,
            )
        files = ("a.jsonl", "b.jsonl", "c.jsonl")
        short = ab(tmp_path, *files, *judge_options(billed), "--budget-usd", 0.7, "--json")
        found = json.loads(short.out)
        assert (short.code, found["decision"]) == (3, "undecided"), short.err
        spent = [float(one["spent"].removeprefix("$")) for one in found["comparisons"]]
        assert min(spent) > 0
        assert sum(spent) <= 0.7
        paid = billed.since()
        # Each judgment is asked once, and at most twenty spoilt answers: the same command resumes.
        assert ab(tmp_path, *files, *judge_options(billed), "--budget-usd", 50).code == 0
        assert paid < billed.since()
        assert 120 <= billed.since() <= 140

    @pytest.mark.slow
    def test_a_guard_stands_beside_a_judge(self, tmp_path, billed):
        def with_safety(name, right, model, word):
            log(tmp_path, name, 60, model=model, word=lambda _: f" {word}", score=right)
            return name

        base = with_safety("a.jsonl", lambda k: k % 10 > 0, "old", "poor")
        good = with_safety("b.jsonl", lambda k: k % 10 > 0, "new", "fine")
        rash = with_safety("c.jsonl", lambda k: k % 10 > 6, "rash", "fine")
        guarded = ("--guard", "accuracy=0.2", *judge_options(billed))
        ran = ab(tmp_path, base, good, rash, *guarded, "--budget-usd", 50, "--json")
        found = json.loads(ran.out)
        assert (ran.code, found["decision"]) == (1, "guard failed"), ran.err
        assert [tuple(one.values()) for one in found["candidates"]] == [
            ("new", "better"),
            ("rash", "guard failed"),
        ]
        assert {one["level"] for one in found["comparisons"]} == {1 - 0.05 / 4}
        # The published page of one of them knows of the others.
        run = found["comparisons"][0]["run"]
        ran = Arranged(tmp_path).call("publish", run.removesuffix("/run"), "site")
        assert ran.code == 0, ran.err
        low = found["comparisons"][0]["low"]
        assert f"above +{low:.0f}" in (tmp_path / "site/index.html").read_text()


class TestJudge:
    def test_it_stops_when_it_is_decided_and_is_verified(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 120, word=lambda _: " poor")
        log(tmp_path, "b.jsonl", 120, word=lambda k: " fine" if k % 5 else "")
        ran = judged(tmp_path, billed)
        assert ran.code == 0, ran.err
        assert "b is better" in ran.out
        assert "30 prompts like these" in ran.out
        # Both orders of thirty prompts and sixteen spoilt answers, and nothing else.
        assert billed.since() == 76
        (folder,) = (tmp_path / "runs").iterdir()
        assert {"tournament.yaml", "prompts.jsonl", "answers.jsonl", "run"} <= {
            one.name for one in folder.iterdir()
        }
        assert Arranged(tmp_path).call("verify", folder / "run").code == 0
        # The same again costs nothing; the other way round, B is worse.
        assert judged(tmp_path, billed).code == 0
        assert billed.since() == 76

    def test_its_folder_is_published_with_the_decision(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 60, word=lambda _: " poor")
        log(tmp_path, "b.jsonl", 60, word=lambda k: " fine" if k % 5 else "")
        found = json.loads(judged(tmp_path, billed, "--json").out)
        (folder,) = (tmp_path / "runs").iterdir()
        ran = Arranged(tmp_path).call("publish", folder, "site")
        assert ran.code == 0, ran.err
        assert "every prompt, response" in ran.err
        page = (tmp_path / "site/index.html").read_text()
        assert "<h1>b against" in page
        assert "b is better" in page
        assert f"+{found['low']:.0f} to +{found['high']:.0f}), 30 prompts like these." in page
        assert "b is better" in (tmp_path / f"site/badges/{folder.name}.svg").read_text()
        assert Arranged(tmp_path).call("verify", tmp_path / "site" / folder.name).code == 0

    @pytest.mark.slow
    def test_it_goes_on_while_it_is_undecided(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 50, word=lambda k: " fine" if k % 2 else "")
        log(tmp_path, "b.jsonl", 50, word=lambda k: "" if k % 2 else " fine")
        with patch.object(tournament_run, "write_judged_run", wraps=write_judged_run) as written:
            ran = judged(tmp_path, billed)
        assert ran.code == 5
        # The folder is written at the end, not at each of three looks.
        assert written.call_count == 1
        assert billed.since() == 116
        assert "Undecided." in ran.out
        assert "30 prompts: " in ran.err
        assert "50 prompts: " in ran.err
        found = json.loads(judged(tmp_path, billed, "--json").out)
        assert (found["compared"], found["decision"], found["unit"]) == (50, "undecided", "points")
        assert billed.since() == 116

    def test_one_fixed_look_says_its_power_first(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 60, word=lambda _: " poor")
        log(tmp_path, "b.jsonl", 60, word=lambda k: " fine" if k % 3 else "")
        ran = judged(tmp_path, billed, "--fixed", 20)
        assert (ran.code, "20 prompts like these" in ran.out) == (0, True)
        assert "80% power" in ran.err
        assert billed.since() == 56
        stopped = judged(tmp_path, billed, "--fixed", 50, "--budget-usd", 0.3)
        # Half of the planned look is no look.
        assert stopped.code == 3

    @pytest.mark.slow
    def test_not_worse_ends_it_where_that_is_the_goal(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 200, word=lambda k: " fine" if k % 10 == 0 else "")
        log(tmp_path, "b.jsonl", 200, word=lambda k: " fine" if k % 5 == 1 else "")
        wide = ("--margin", 60)
        soon = judged(tmp_path, billed, *wide, "--goal", "not-worse", "--json")
        found = json.loads(soon.out)
        assert (soon.code, found["decision"]) == (0, "not worse")
        later = json.loads(judged(tmp_path, billed, *wide, "--json").out)
        assert later["compared"] > found["compared"]

    @pytest.mark.slow
    def test_prompts_of_a_judged_comparison_come_in_clusters_too(self, tmp_path, billed):
        for name, better in (("a.jsonl", {0, 1, 2}), ("b.jsonl", set(range(3, 14)))):
            log(tmp_path, name, 120, word=lambda k, better=better: " fine" if k % 14 in better else " poor")
            rows = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
            for k, row in enumerate(rows):
                row["category"] = f"topic {k % 14}"
            (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        alone = json.loads(judged(tmp_path, billed, "--json").out)
        clustered = json.loads(judged(tmp_path, billed, "--cluster", "category", "--json").out)
        assert alone["decision"] == "better"
        assert clustered["decision"] == "undecided"
        # Nor does the published page claim more.
        ran = Arranged(tmp_path).call("publish", clustered["run"].removesuffix("/run"), "site")
        assert ran.code == 0, ran.err
        assert "Undecided" in (tmp_path / "site/index.html").read_text()
        independent = json.loads(judged(tmp_path, billed, "--cluster", "prompt", "--json").out)
        assert independent["decision"] == "better"

    def test_a_budget_stops_it_and_more_resumes_it(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 60, word=lambda _: " poor")
        log(tmp_path, "b.jsonl", 60, word=lambda k: " fine" if k % 3 else "")
        short = judged(tmp_path, billed, "--budget-usd", 0.3)
        assert short.code == 3
        assert "Undecided" in short.out
        paid = billed.since()
        assert 0 < paid < 60
        whole = judged(tmp_path, billed, "--budget-usd", 50)
        assert whole.code == 0, whole.err
        assert billed.since() == 76

    def test_a_budget_for_nothing_says_what_the_first_prompt_may_cost(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 40)
        log(tmp_path, "b.jsonl", 40, word=lambda _: " fine")
        ran = judged(tmp_path, billed, "--budget-usd", 0.000001)
        assert ran.code == 3
        assert "budget covers" in ran.out
        assert billed.since() == 0

    @pytest.mark.slow
    def test_what_more_prompts_cost_is_not_raised_by_lost_calls(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 32, word=lambda k: " fine" if k % 2 else "")
        log(tmp_path, "b.jsonl", 32, word=lambda k: "" if k % 4 else " fine")
        clean = json.loads(judged(tmp_path, billed, "--json").out)
        with paid_llm(drop_before=0.3, times=1) as server:
            address = ("--base-url", server.openai, "--price", "likes-fine=3,15")
            ran = ab(tmp_path, "a.jsonl", "b.jsonl", "--judge", "likes-fine", *address, "--json")
        found = json.loads(ran.out)
        assert clean["known_usd"] == clean["at_most_usd"]
        assert found["known_usd"] == clean["known_usd"]
        assert float(found["at_most_usd"]) > float(found["known_usd"])
        assert "at most" in found["spent"]
        assert (found["more"], found["more_usd"]) == (clean["more"], clean["more_usd"])
        assert clean["more_usd"] is not None

    @pytest.mark.slow
    def test_killed_between_two_looks_it_is_resumed_from_the_ledger(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 50, word=lambda k: " fine" if k % 2 else "")
        log(tmp_path, "b.jsonl", 50, word=lambda k: "" if k % 2 else " fine")
        billed.server.change(latency=0.2)
        arranged = Arranged(tmp_path)
        with killing(arranged.start("ab", "a.jsonl", "b.jsonl", *judge_options(billed))):
            # Both orders of thirty prompts are the first look.
            billed.wait_for(lambda tally: tally["paid_calls"] > 64)
        billed.server.change(latency=0.0)
        ran = judged(tmp_path, billed)
        assert ran.code == 5, ran.err
        # Only what was under way at the kill is paid again: at most 16 calls at once.
        assert 116 <= billed.since() <= 116 + 16
        (folder,) = (tmp_path / "runs").iterdir()
        assert arranged.call("verify", folder / "run").code == 0

    @pytest.mark.slow
    def test_calls_at_an_unknown_price_are_not_free_to_a_budget(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 50, word=lambda k: " fine" if k % 2 else "")
        log(tmp_path, "b.jsonl", 50, word=lambda k: "" if k % 2 else " fine")
        judge = ("--judge", "likes-fine", "--base-url", billed.server.openai)
        assert ab(tmp_path, "a.jsonl", "b.jsonl", *judge, "--max-prompts", 30).code == 5
        paid = billed.since()
        budget = ("--price", "likes-fine=3,15", "--budget-usd", 3)
        refused = ab(tmp_path, "a.jsonl", "b.jsonl", *judge, *budget)
        assert refused.code == 2
        assert f"{paid} calls of this run were made at an unknown price" in " ".join(refused.err.split())
        assert billed.since() == paid
        elsewhere = ab(tmp_path, "a.jsonl", "b.jsonl", *judge, *budget, "--output-dir", "priced")
        assert elsewhere.code == 5
        assert billed.since() == 116

    @pytest.mark.slow
    def test_a_judge_that_follows_the_slot_does_not_make_two_models_the_same(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 80)
        log(tmp_path, "b.jsonl", 80, word=lambda _: " fine")
        ran = judged(tmp_path, billed, "--comment", "c.md", model="first")
        assert ran.code == 4
        assert "cannot tell" in ran.out
        assert "order in 100" in ran.err
        assert "prefers" in ran.err
        assert "prefers" in (tmp_path / "c.md").read_text()
        found = json.loads(judged(tmp_path, billed, "--json", model="first").out)
        assert {"slot-preference", "flips-often"} <= {finding["name"] for finding in found["findings"]}
        assert found["decision"] == "cannot tell"
        # Nor does the published page.
        (folder,) = (tmp_path / "runs").iterdir()
        assert Arranged(tmp_path).call("publish", folder, "site").code == 0
        assert "cannot tell" in (tmp_path / "site/index.html").read_text()

    @pytest.mark.slow
    def test_reference_answers_are_shown_unless_a_rubric_is_named(self, tmp_path, billed):
        before = len(billed.server.bodies())
        billed.server.change(keep_bodies=True)
        for name, word in (("a.jsonl", " poor"), ("b.jsonl", " fine")):
            wordy(tmp_path, name, 30, lambda _, word=word: word)
            rows = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
            rows = [one | {"gold": "Solution."} if number else one for number, one in enumerate(rows)]
            (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        found = json.loads(judged(tmp_path, billed, "--json").out)
        bodies = list(map(json.dumps, billed.server.bodies()[before:]))
        assert (found["decision"], len(found["notes"])) == ("better", 1)
        assert "29 of 30" in found["notes"][0]
        assert sum("Solution." in one for one in bodies) >= len(bodies) - 3
        assert all("reference" in one for one in bodies)
        assert Arranged(tmp_path).call("verify", tmp_path / found["run"]).code == 0
        plain = json.loads(judged(tmp_path, billed, "--rubric", "preference", "--json").out)
        assert (plain["decision"], plain["notes"]) == ("better", [])
        later = billed.server.bodies()[before + len(bodies) :]
        assert later
        assert not any("Solution." in json.dumps(one) for one in later)

    @pytest.mark.slow
    def test_several_models_behind_one_name_are_named(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 40)
        log(tmp_path, "b.jsonl", 40, word=lambda _: " fine")
        ran = judged(tmp_path, billed, "--json", model="alias")
        found = json.loads(ran.out)
        (changed,) = [one for one in found["findings"] if one["name"] == "judge-model-changed"]
        counts = {one["model"]: one["replies"] for one in changed["values"]["models"]}
        assert counts.keys() == {"alias-0", "alias-1"}
        assert sum(counts.values()) == billed.since()
        assert "dated model" in ran.err
        # The rows of the folder have what was served.
        assert Arranged(tmp_path).call("verify", tmp_path / found["run"]).code == 0


def wordy(folder, name, count, word):
    """Answers of which every kind of spoilt ones can be made."""
    return log(folder, name, count, word=lambda k: "".join(f" w{k}x{j}" for j in range(12)) + word(k))


def alike(folder, count=100):
    """Two models of which each is better on a quarter of the prompts."""
    wordy(folder, "a.jsonl", count, lambda k: " fine" if k % 4 == 0 else " poor")
    wordy(folder, "b.jsonl", count, lambda k: " fine" if k % 4 == 1 else " bad")


WIDE = ("--margin", 120, "--json")


class TestProof:
    def test_the_same_is_said_with_the_spoilt_answers_that_were_found(self, tmp_path, billed):
        alike(tmp_path)
        ran = judged(tmp_path, billed, *WIDE, "--comment", "c.md")
        found = json.loads(ran.out)
        assert (ran.code, found["decision"], found["notes"]) == (0, "same", [])
        assert (found["spoilt_answers"], found["spoilt_answers_found"]) == (16, 16)
        assert 0.4 <= found["tie_share"] <= 0.6
        assert "16 of 16" in (tmp_path / "c.md").read_text()
        assert billed.since() == 2 * found["compared"] + 16
        # Spoilt answers are in no battle; the published page says the same.
        folder = tmp_path / found["run"]
        diagnostics = json.loads((folder / "diagnostics.json").read_text())
        assert diagnostics["judges"][0]["swapped"]["n"] == 4
        assert len((folder / "battles.jsonl").read_text().splitlines()) == found["compared"]
        assert Arranged(tmp_path).call("verify", folder).code == 0
        assert Arranged(tmp_path).call("read", folder, "--failed-checks").code == 0

    @pytest.mark.slow
    def test_a_later_run_plants_four(self, tmp_path, billed):
        alike(tmp_path)
        judged(tmp_path, billed, *WIDE)
        before = billed.since()
        for name in ("a.jsonl", "b.jsonl"):
            (tmp_path / name).write_text(
                (tmp_path / name).read_text().replace("Question", "Query").replace("x", "y")
            )
        found = json.loads(judged(tmp_path, billed, *WIDE).out)
        assert (found["decision"], found["spoilt_answers"]) == ("same", 4)
        assert billed.since() - before == 2 * found["compared"] + 4
        assert Arranged(tmp_path).call("verify", tmp_path / found["run"]).code == 0
        # Another model behind the same name voids it, and the next run proves it anew.
        (place,) = tmp_path.rglob("ledger.sqlite")
        with closing(sqlite3.connect(place)) as rows:
            stored = rows.execute("SELECT request_key, body FROM judge_replies").fetchall()
        (key,) = {key for key, body in stored if "served" in json.loads(zlib.decompress(body))}
        with closing(Ledger(f"sqlite:///{place}")) as ledger:
            ledger.add_note(key, {"served": ["another"]})
        fixed = (*WIDE, "--fixed", 100)
        assert judged(tmp_path, billed, *fixed).code == 4
        anew = json.loads(judged(tmp_path, billed, *fixed).out)
        assert (anew["decision"], anew["spoilt_answers"]) == ("same", 16)

    @pytest.mark.slow(but="ties")
    @pytest.mark.parametrize("model", ["ties", "coarse", "blind-swapped", "blind-garbage"])
    def test_a_judge_that_cannot_tell_does_not_say_the_same(self, tmp_path, billed, model):
        alike(tmp_path)
        ran = judged(tmp_path, billed, *WIDE, model=model)
        found = json.loads(ran.out)
        assert (ran.code, found["decision"]) == (4, "cannot tell")
        assert found["spoilt_answers_found"] == {"ties": 0, "coarse": 16}.get(model, 12)
        if model == "coarse":
            accepted = json.loads(judged(tmp_path, billed, *WIDE, "--ties-are-same", model=model).out)
            assert (accepted["decision"], accepted["tie_share"]) == ("same", 1.0)
            # The published page does not know that ties were accepted.
            judged(tmp_path, billed, "--fixed", 100, "--ties-are-same", model=model)
            assert Arranged(tmp_path).call("publish", found["run"].removesuffix("/run"), "site").code == 0
            assert "cannot tell" in (tmp_path / "site/index.html").read_text()

    @pytest.mark.slow
    def test_a_judge_that_cannot_tell_still_says_what_is_better(self, tmp_path, billed):
        wordy(tmp_path, "a.jsonl", 40, lambda _: " poor")
        wordy(tmp_path, "b.jsonl", 40, lambda _: " fine")
        ran = judged(tmp_path, billed, "--json", model="blind-empty")
        found = json.loads(ran.out)
        assert (ran.code, found["decision"]) == (0, "better")
        assert [one["name"] for one in found["findings"]] == ["fails-canaries"]

    def test_equal_answers_are_ties_that_nobody_is_asked_about(self, tmp_path, billed):
        wordy(tmp_path, "a.jsonl", 60, lambda k: " fine" if k % 6 == 0 else "")
        wordy(tmp_path, "b.jsonl", 60, lambda k: " fine" if k % 6 == 1 else "")
        found = json.loads(judged(tmp_path, billed, *WIDE, "--fixed", 60).out)
        assert (found["compared"], found["decision"], found["tie_share"]) == (60, "same", 0.0)
        assert billed.since() == 2 * 20 + 16
        assert Arranged(tmp_path).call("verify", tmp_path / found["run"]).code == 0

    def test_few_prompts_plant_what_can_be_made_of_them(self, tmp_path, billed):
        log(tmp_path, "a.jsonl", 3, word=lambda _: " poor")
        log(tmp_path, "b.jsonl", 3, word=lambda _: " bad")
        ran = judged(tmp_path, billed, "--fixed", 3, "--margin", 500)
        assert ran.code == 4
        assert "swapped" in ran.err
        assert billed.since() == 2 * 3 + 6


def test_a_judge_follows_the_slot_if_it_flips_often_and_prefers_one():
    measured = {"who": "j", "judge": "j", "dimension": None, "low": 0.3, "high": 0.5, "trials": 50}
    flips = Finding("flips-often", {**measured, "share": 0.4})
    slot = Finding("slot-preference", {**measured, "case": "second", "share": 0.1})
    other = Finding("truncated-answers", {"answers": 1}, "One.", "Look.")
    assert "20 of 50" in slot_preference([other, flips, slot])
    assert slot_preference([other, flips]) is None
    assert slot_preference([slot, other]) is None


def test_points_of_a_score():
    assert points(0.0) == 0.0
    assert points(0.25) == pytest.approx(190.85, abs=0.01)
    assert (points(0.5), points(-0.7)) == (float("inf"), float("-inf"))


class TestPython:
    def test_files_and_answers_in_a_script_and_on_an_event_loop(self, tmp_path):
        a = tmp_path / log(tmp_path, "a.jsonl", score=lambda k: float(k % 3 == 0))
        b = tmp_path / log(tmp_path, "b.jsonl", score=lambda k: float(k % 3 != 1))
        found = tiltyard.ab(a, b, score="accuracy")
        assert (found.decision, found.compared, found.verdict) == ("better", 60, "b is better than a.")

        async def both():
            within = tiltyard.ab(b, a, score="accuracy")
            return within, await tiltyard.ab_async(list(tiltyard.read_answers(a)), b, score="accuracy")

        within, awaited = asyncio.run(both())
        assert (within.decision, awaited.decision) == ("worse", "better")

    def test_a_function_as_a_judge(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
        wordy(tmp_path, "a.jsonl", 40, lambda _: " poor")
        wordy(tmp_path, "b.jsonl", 40, lambda _: " fine")
        asked = []

        def finer(prompt: str, first: str, second: str) -> str:
            asked.append(prompt)
            return {1: "A", -1: "B"}.get(("fine" in first) - ("fine" in second), "tie")

        async def finer_too(prompt: str, first: str, second: str) -> dict[str, str]:
            return {"verdict": finer(prompt, first, second), "reasoning": "By the word."}

        def by(judge, version="1"):
            options = {"judge_version": version, "output_dir": tmp_path / "runs"}
            return tiltyard.ab(tmp_path / "a.jsonl", tmp_path / "b.jsonl", judge=judge, **options)

        found = by(finer)
        assert (found.decision, found.compared, len(asked)) == ("better", 30, 76)
        assert found.details["judges"] == "finer"
        # The same version is not asked again, and the folder verifies without the function.
        assert by(finer).decision == "better"
        assert len(asked) == 76
        assert Arranged(tmp_path).call("verify", found.details["run"]).code == 0
        by(finer, "2")
        assert len(asked) == 2 * 76
        assert by(finer_too).decision == "better"
        assert len(asked) == 3 * 76
        assert by([finer, finer_too]).decision == "better"

    @pytest.mark.slow(but_every=2)
    @pytest.mark.parametrize(("said", "problem"), [(None, "returned None"), (KeyError("x"), "KeyError")])
    def test_a_function_that_fails_is_given_up_and_resumed(self, tmp_path, monkeypatch, said, problem):
        monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
        wordy(tmp_path, "a.jsonl", 40, lambda _: " poor")
        wordy(tmp_path, "b.jsonl", 40, lambda _: " fine")
        asked = []

        def broken(prompt, first, second):
            asked.append(prompt)
            if isinstance(said, Exception):
                raise said
            return said

        def fixed(_prompt, first, _second):
            return "A" if "fine" in first else "B"

        fixed.__name__ = "broken"

        def by(judge):
            options = {"judge_version": "1", "output_dir": tmp_path / "runs"}
            return tiltyard.ab(tmp_path / "a.jsonl", tmp_path / "b.jsonl", judge=judge, **options)

        found = by(broken)
        assert (found.decision, found.stopped) == ("undecided", True)
        assert problem in found.problems[0]
        assert len(asked) <= 9
        assert by(fixed).decision == "better"

    def test_progress_is_followed_over_the_looks(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
        wordy(tmp_path, "a.jsonl", 50, lambda _: "")
        wordy(tmp_path, "b.jsonl", 50, lambda _: " fine")
        heard = []
        found = tiltyard.ab(
            tmp_path / "a.jsonl",
            tmp_path / "b.jsonl",
            judge=lambda prompt, first, _second: "A" if ("fine" in first) == len(prompt) % 2 else "tie",
            judge_version="1",
            output_dir=tmp_path / "runs",
            progress=lambda done, planned: heard.append((done, planned)),
        )
        assert heard == sorted(heard)
        assert heard[0] == (0, 76)
        assert heard[-1] == (2 * found.compared + 16,) * 2

    def test_a_function_needs_a_version(self):
        with pytest.raises(BadOption, match="judge_version"):
            tiltyard.ab([], [], judge=lambda *_: "A")
        with pytest.raises(BadOption, match="judge_version"):
            tiltyard.ab([], [], judge=lambda *_: "A", judge_version="")
        with pytest.raises(BadOption, match="judge_version"):
            tiltyard.ab([], [], judge="m", judge_version="1")


class TestFunctionsThatAnswer:
    @staticmethod
    def _fine(_prompt, first, second):
        return "A" if "fine" in first and "fine" not in second else "B" if "fine" in second else "tie"

    def _ab(self, folder, *sides, version="1", **options):
        stated = {"judge": self._fine, "judge_version": "1", "output_dir": folder / "runs"}
        return tiltyard.ab(*sides, **(stated | {"model_version": version} | options))

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))

    @pytest.mark.slow
    def test_plain_and_async_ones_are_asked_once_for_a_version(self, tmp_path):
        asked = []

        def poor(prompt):
            asked.append(prompt)
            return f"{prompt} The {hash(prompt)} is what one would say here, poorly."

        async def fine(prompt):
            asked.append(prompt)
            usage = {"output_tokens": 30, "cost_usd": 0.01}
            return {"response": f"{prompt} The {hash(prompt)} is a fine thing to say here.", "usage": usage}

        prompts = [f"Question {k}?" for k in range(40)]
        found = self._ab(tmp_path, poor, fine, prompts=prompts)
        assert (found.name_a, found.name_b, found.decision) == ("poor", "fine", "better")
        assert sorted(asked) == sorted(2 * prompts)
        assert self._ab(tmp_path, poor, fine, prompts=prompts).decision == "better"
        assert len(asked) == 80
        self._ab(tmp_path, poor, fine, prompts=prompts, version="2")
        assert len(asked) == 160
        assert Arranged(tmp_path).call("verify", found.details["run"]).code == 0

    def test_the_page_says_how_verdicts_become_a_file_of_scores(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for name, word in (("a.jsonl", " poor"), ("b.jsonl", " fine")):
            wordy(tmp_path, name, 40, lambda _, word=word: word)
        options = {"judge": self._fine, "judge_version": "1"}
        report = tiltyard.ab(tmp_path / "b.jsonl", tmp_path / "a.jsonl", **options)
        page = (Path(__file__).parents[2] / "docs/how-to/is-b-better-than-a.md").read_text(encoding="utf-8")
        (block,) = (one for one in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "verdicts.jsonl" in one)
        exec(compile(block, "page", "exec"), {"report": report, "tiltyard": tiltyard})
        rows = [json.loads(line) for line in (tmp_path / "verdicts.jsonl").read_text().splitlines()]
        assert len({row["id"] for row in rows}) == len(rows) == report.compared
        assert {row["value"] for row in rows} == {0.0}

    def test_a_function_answers_the_prompts_of_the_other_side(self, tmp_path):
        wordy(tmp_path, "a.jsonl", 40, lambda _: " poor")
        usage = {"output_tokens": 20, "cost_usd": 0.5}

        def fine(prompt):
            return {"response": f"It is fine to say: {prompt}", "usage": usage, "scores": {"accuracy": 0.5}}

        assert self._ab(tmp_path, tmp_path / "a.jsonl", fine).decision == "better"
        rows = [{"prompt_id": f"q{k}", "prompt": f"Q{k}?", "category": f"c{k % 5}"} for k in range(40)]
        write_lines(tmp_path / "bank.jsonl", rows)

        def finer(prompt):
            tokens = {"output_tokens": 10 + len(prompt) % 3, "cost_usd": 0.25}
            return {
                "response": f"fine {prompt}",
                "usage": tokens,
                "scores": {"accuracy": 0.5 + len(prompt) / 9},
            }

        # With scores of their own they need no judge.
        plain = tiltyard.ab(
            fine, finer, prompts=tmp_path / "bank.jsonl", model_version="1", cluster="category"
        )
        assert (plain.basis, plain.decision, plain.compared) == ("scores", "better", 40)
        assert [one.name for one in plain.costs] == ["dollars", "output tokens"]

    @pytest.mark.slow(but_every=4)
    @pytest.mark.parametrize(
        ("said", "problem"),
        [
            (None, "returned None"),
            ("", "empty answer"),
            (ValueError("no"), "ValueError"),
            ({"usage": {}}, "missing"),
        ],
    )
    def test_one_that_fails_ends_the_comparison_and_is_asked_again(self, tmp_path, said, problem):
        asked = []

        def one(prompt):
            asked.append(prompt)
            return f"fine {prompt}"

        def other(prompt):
            if isinstance(said, Exception):
                raise said
            return said

        prompts = [f"Question {k}?" for k in range(30)]
        with pytest.raises(BadOption, match=problem):
            self._ab(tmp_path, one, other, prompts=prompts)

        def mended(prompt):
            return f"poor {prompt}"

        mended.__name__ = "other"
        assert self._ab(tmp_path, one, mended, prompts=prompts).decision == "worse"
        assert len(asked) == 30

    def test_what_is_missing_or_named_twice_is_refused(self, tmp_path):
        def one(prompt):
            return prompt

        for sides, options in (
            ((one, one), {"prompts": ["a"]}),
            ((one, str.upper), {"prompts": ["a", "a"]}),
            ((one, str.upper), {"prompts": []}),
            ((one, str.upper), {"prompts": [{"text": "a"}]}),
            ((one, str.upper), {"prompts": ["a"], "model_version": None}),
            (([], []), {"prompts": ["a"], "model_version": None}),
            (([], []), {}),
        ):
            with pytest.raises(InputError, match=r"prompt|functions|model_version"):
                self._ab(tmp_path, *sides, **options)
