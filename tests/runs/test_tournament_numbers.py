"""Every number of a tournament's folder, once more from its battles and verdicts."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from support.judged_runs import (
    STRENGTH,
    document,
    failed,
    human_battles,
    lines,
    made_run,
    written,
)
from tiltyard.core.battles import Label, Table
from tiltyard.core.judging.judged_question import JudgedQuestion, match_id_of, reparse
from tiltyard.core.judging.question import Question
from tiltyard.core.judging.reconciliation import reconcile
from tiltyard.core.judging.verdict import QuestionState, Reply, VerdictForm
from tiltyard.core.ratings import BradleyTerry
from tiltyard.files import open_battles, read_battles
from tiltyard.runs.run_verification import verify_run


def test_the_battles_are_those_that_the_verdicts_make(original):
    """Each battle again, from the file of verdicts, by hand: a majority of judges with both orders."""
    verdicts: dict[tuple[str, str], dict[str, dict[int, JudgedQuestion]]] = {}
    for name in ("factuality", "calibration"):
        for row in lines(original, f"questions/{name}.jsonl"):
            judged = JudgedQuestion.from_dict(row, "here")
            if row["purpose"] == "match":
                place = verdicts.setdefault((row["match_id"], name), {})
                place.setdefault(row["judge_model"], {})[row["order"]] = judged
    complete = {
        key: results
        for key, by_judge in verdicts.items()
        if len(
            results := [
                reconcile(two[0].verdict, two[1].verdict)
                for two in by_judge.values()
                if two[0].verdict and two[1].verdict
            ]
        )
        >= 2
    }
    battles = [row for row in lines(original, "battles.jsonl") if row["source"] == "llm-judge"]
    assert len(battles) == len(complete)
    settled = list(complete.values())
    for battle, results in zip(battles, settled, strict=True):
        outcomes = {result.outcome for result in results}
        if len(outcomes) == 1:
            assert battle["winner"] == next(iter(outcomes))
        assert battle["judge_model"] == "panel:judge-one+judge-two"


def test_battles_carry_all_that_is_needed_to_rate_them(original):
    rows = lines(original, "battles.jsonl")
    judged = [row for row in rows if row["source"] == "llm-judge"]
    human = rows[len(judged) :]
    assert {row["source"] for row in human} == {"human"}
    assert {row["dimension"] for row in human} == {"overall"}
    assert all(row["mood"] == {"calm": True} for row in human)
    wanted = {"model_a", "model_b", "winner", "label", "source", "question_id", "judge_model"}
    wanted |= {"dimension", "pref"}
    assert all(wanted <= set(row) for row in judged)
    assert Counter(row["label"] for row in judged).keys() >= {"win", "lean", "inconsistent"}


def test_ratings_are_those_of_a_dimension_or_of_all_as_they_weigh(original):
    groups = document(original, "dimension_ratings.json")["groups"]
    assert list(groups) == ["factuality", "calibration", "overall"]
    battles = [one for one in read_battles(original / "battles.jsonl") if one.dimension == "factuality"]
    ratings = BradleyTerry()(Table.from_battles(battles))
    expected = dict(zip(ratings.models, ratings.rating, strict=True))
    for row in groups["factuality"]["ratings"]:
        assert row["rating"] == pytest.approx(expected[row["model"]])
    weights = {"factuality": 0.5, "calibration": 0.25, "overall": 1.0}
    battles = [
        replace(one, weight=weights[one.dimension]) for one in read_battles(original / "battles.jsonl")
    ]
    ratings = BradleyTerry()(Table.from_battles(battles))
    expected = dict(zip(ratings.models, ratings.rating, strict=True))
    found = document(original, "dimension_ratings.json")["groups"]["overall"]
    assert {row["model"]: row["rating"] for row in found["ratings"]} == pytest.approx(expected)
    assert found["n_battles"] == len(battles)
    assert found["n_both_bad"] == sum(bool(one.both_bad) for one in battles)
    assert found["interval"]["n_clusters"] < len({(one.question_id, one.dimension) for one in battles})


def test_anchors_place_an_entrant_among_models_that_it_never_met(tmp_path):
    anchors = [open_battles(human_battles(tmp_path))]
    run = written(tmp_path, made_run(dimensions=("factuality",), anchors=anchors, evaluated="ash"))
    groups = document(run, "dimension_ratings.json")["groups"]
    assert {row["model"] for row in groups["overall"]["ratings"]} == {*STRENGTH, "elder"}
    assert [row["model"] for row in groups["overall"]["ratings"] if row["source"] == "evaluated"] == ["ash"]
    assert failed(verify_run(run)) == []


def test_choices_are_the_ratings_under_other_scores(original):
    document_ = document(original, "dimension_ratings.json")
    for name, found in document_["choices"].items():
        assert [(one["ties"], one["lean"], one["inconsistent"]) for one in found] == [
            ("half", 0.75, 0.5),
            ("half", 1.0, 0.5),
            ("half", 0.5, 0.5),
            ("half", 0.75, None),
            ("drop", 0.75, 0.5),
        ]
        rows = document_["groups"][name]["ratings"]
        assert [row["rating"] for row in found[0]["ratings"]] == [row["rating"] for row in rows]
    battles = [one for one in read_battles(original / "battles.jsonl") if one.dimension == "calibration"]
    ratings = BradleyTerry(lean=0.5)(Table.from_battles(battles))
    expected = dict(zip(ratings.models, ratings.rating, strict=True))
    found = {row["model"]: row["rating"] for row in document_["choices"]["calibration"][2]["ratings"]}
    assert found == pytest.approx(expected, nan_ok=True)


def test_a_judge_that_is_consistent_on_hard_prompts_rates_the_models(tmp_path):
    """Every verdict calls both responses bad, and says which of the two is the better one."""

    def hard(question: Question) -> JudgedQuestion:
        ahead = STRENGTH[question.first] > STRENGTH[question.second]
        said = {"reasoning": "Both fail.", "verdict": "A>B" if ahead else "B>A", "both_bad": True}
        form, key = VerdictForm.SCHEMA, "0" * 64
        reply = Reply(json.dumps(said))
        return reparse(
            JudgedQuestion(question, match_id_of(question), QuestionState.OK, None, None, reply, form, key, 1)
        )

    run = written(tmp_path, made_run(prompts=6, dimensions=("factuality",), checks=0, fate=hard))
    battles = list(read_battles(run / "battles.jsonl"))
    assert {(one.label, one.both_bad) for one in battles} == {(Label.WIN, True)}
    matches = document(run, "diagnostics.json")["matches"]["factuality"]
    assert matches["settled"] == matches["decisive"] == matches["both_bad"] == len(battles)
    found = document(run, "dimension_ratings.json")["groups"]["factuality"]
    assert (found["n_battles"], found["n_both_bad"]) == (len(battles), len(battles))
    elo = document(run, "elo_results.json")["primary"]["factuality"]
    order = sorted(STRENGTH, key=lambda name: elo[name]["mean"])
    assert order == sorted(STRENGTH, key=STRENGTH.__getitem__)


def test_diagnostics_count_what_was_left_out(original):
    found = document(original, "diagnostics.json")
    rows = lines(original, "questions/factuality.jsonl")
    states = Counter(row["state"] for row in rows if row["judge_model"] == "judge-one")
    (mine,) = [
        one
        for one in found["judges"]
        if (one["judge_model"], one["dimension"]) == ("judge-one", "factuality")
    ]
    assert {state: n for state, n in mine["states"].items() if n} == dict(states)
    assert found["dropped_pairs"] == 9
    matches = found["matches"]["factuality"]
    assert matches["matches"] == matches["settled"] + matches["incomplete"]
    assert {one["judge_model"] for one in found["agreement"]} == {
        *("judge-one", "judge-two", "panel:judge-one+judge-two")
    }
