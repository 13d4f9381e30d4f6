"""Sheets of matches for people, and what comes back in them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from support.judged_runs import STRENGTH, answers_of, made_run, prompts_of
from tiltyard.core.judging.conversation import ContentPart, Message
from tiltyard.core.judging.diagnostics.label_agreement import FIRST, SECOND, TIE
from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.report.trust_report import cite_paragraph, trust_page, trust_text
from tiltyard.runs.judge_labels import JudgedMatches, LabelledRun, read_labels
from tiltyard.runs.judge_trust import judge_trust
from tiltyard.runs.tournament_files import write_judged_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels") / "run"
    write_judged_run(folder, made_run(prompts=30))
    return JudgedMatches.read(folder)


@pytest.fixture
def rows(run, tmp_path):
    return _rows(run.draw(40, 0), tmp_path)


def _rows(sheet, tmp_path):
    sheet.write(tmp_path / "sheet.csv")
    with (tmp_path / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def _filled(path, rows, say, **columns):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], *columns])
        writer.writeheader()
        writer.writerows(row | columns | {"better": say(k)} for k, row in enumerate(rows))
    return path


def _as_judge(run, sheet):
    """What the judge said, in the words of the sheet."""
    words = []
    for number in range(sheet.count):
        winner = run.battles[sheet.sample.places[number]].winner
        first = "2" if sheet.is_turned(number) else "1"
        second = "1" if sheet.is_turned(number) else "2"
        words.append({"model_a": first, "model_b": second}.get(str(winner), "tie"))
    return words


def test_a_sheet_names_no_model(run, rows):
    assert len(rows) == 40
    for row, number in zip(rows, range(40), strict=True):
        match = run.matches[run.draw(40, 0).sample.places[number]]
        shown = {row["response_1"].removeprefix("'"), row["response_2"].removeprefix("'")}
        assert shown == {run.texts[model, match.prompt_id] for model in (match.model_a, match.model_b)}
        assert match.model_a not in row["item"]
        assert row["better"] == ""
    turned = sum(run.draw(40, 0).is_turned(number) for number in range(40))
    assert 8 < turned < 32


def test_labels_come_back_for_the_models_that_they_were_said_of(run, rows, tmp_path):
    words = _as_judge(run, run.draw(40, 0))
    sheet, labels = read_labels(run, [_filled(tmp_path / "anna.csv", rows, words.__getitem__)])
    values = {"model_a": FIRST, "model_b": SECOND}
    for one in labels:
        assert one.rater == "anna"
        assert one.value == values.get(str(run.battles[sheet.sample.places[one.number]].winner), TIE)
    found = judge_trust(LabelledRun.of(sheet, labels))
    assert found.overall.agreed.value == pytest.approx(1.0)
    assert found.overall.correlation.value == pytest.approx(1.0)
    assert not any(pair.turned for pair in found.order)


def test_people_who_say_the_opposite_turn_the_order(run, tmp_path):
    sheet = run.draw(200, 0)
    other = {"1": "2", "2": "1", "tie": "tie"}
    rows, words = _rows(sheet, tmp_path), [other[word] for word in _as_judge(run, sheet)]
    found = judge_trust(
        LabelledRun.of(*read_labels(run, [_filled(tmp_path / "a.csv", rows, words.__getitem__)]))
    )
    assert found.overall.kappa.value < 0.0
    assert any(pair.turned for pair in found.order)
    assert not any(pair.confirmed for pair in found.order)


def test_spellings_of_spreadsheets_are_read(run, rows, tmp_path):
    words = ["1.0", "2", "TIE", "both_bad", " Both  bad ", ""]
    path = _filled(tmp_path / "a.csv", rows, lambda k: words[k % 6])
    _, labels = read_labels(run, [path])
    assert len(labels) == sum(k % 6 < 5 for k in range(40))


def test_several_people_in_one_file_and_in_several(run, rows, tmp_path):
    paths = [
        _filled(tmp_path / "one.csv", rows, lambda _: "1", rater="anna"),
        _filled(tmp_path / "two.csv", rows, lambda _: "2", rater="ben"),
    ]
    sheet, labels = read_labels(run, paths)
    labelled = LabelledRun.of(sheet, labels)
    assert labelled.raters == ("anna", "ben")
    assert (labelled.columns.votes.sum(axis=1) == 2).all()
    found = judge_trust(labelled)
    assert found.people.agreed.value == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"better": "left"}, UnreadableFile),
        ({"item": "17"}, UnreadableFile),
        ({"item": "0-40-1-00000000"}, BadOption),
        ({"item": "0-40-999-00000000"}, BadOption),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(run, rows, tmp_path, change, error):
    rows[0] |= change
    with pytest.raises(error, match="line 2:"):
        read_labels(run, [_filled(tmp_path / "a.csv", rows, lambda k: rows[k]["better"] or "1")])


def test_a_person_labels_an_item_once_and_a_sheet_needs_labels(run, rows, tmp_path):
    twice = _filled(tmp_path / "a.csv", rows, lambda _: "1")
    with pytest.raises(BadOption):
        read_labels(run, [twice, twice])
    with pytest.raises(BadOption):
        read_labels(run, [_filled(tmp_path / "b.csv", rows, lambda _: "")])


def test_sheets_of_two_draws_are_not_mixed(run, rows, tmp_path):
    others = _rows(run.draw(30, 1), tmp_path)
    with pytest.raises(BadOption):
        read_labels(run, [_filled(tmp_path / "a.csv", rows + others, lambda _: "1")])


def test_text_page_and_paragraph_show_the_same(run, rows, tmp_path):
    half = _filled(tmp_path / "a.csv", rows, lambda k: ["1", "2", "tie"][k % 3] if k < 30 else "")
    found = judge_trust(LabelledRun.of(*read_labels(run, [half])))
    assert found.labelled == 30
    assert found.drawn == 40
    agreed = f"{100 * found.overall.agreed.value:.0f} %"
    for text in (trust_text(found), trust_page(found), cite_paragraph(found)):
        assert agreed in text
    scopes = {part.scope for part in found.parts}
    assert scopes == {"the judge", "dimension", "category"}


def _run_of(folder, change):
    answers = [change(one) for one in answers_of(prompts_of(30), tuple(STRENGTH))]
    write_judged_run(folder, made_run(prompts=30, answers=answers))
    return JudgedMatches.read(folder)


def test_a_sheet_of_other_responses_is_refused(run, rows, tmp_path):
    other = _run_of(tmp_path / "other", lambda one: replace(one, response=f"{one.response} again"))
    path = _filled(tmp_path / "a.csv", rows, lambda _: "1")
    with pytest.raises(BadOption, match="not of this run"):
        read_labels(other, [path])
    assert len(read_labels(run, [path])[1]) == 40


def test_the_steps_of_both_responses_are_shown_with_them(tmp_path):
    def with_step(one):
        return replace(one, trace=(Message("assistant", (ContentPart(f"looked up {one.response}"),)),))

    for row in _rows(_run_of(tmp_path / "run", with_step).draw(40, 0), tmp_path):
        assert "looked up" not in row["conversation"]
        for column in ("response_1", "response_2"):
            step, _, response = row[column].partition("\n\nResponse: ")
            assert response
            assert step.endswith(f"looked up {response}")


def test_a_lone_carriage_return_does_not_end_a_line(tmp_path):
    lined = _run_of(tmp_path / "run", lambda one: replace(one, response="one\rtwo"))
    rows = _rows(lined.draw(40, 0), tmp_path)
    assert {row["response_1"] for row in rows} == {"one\ntwo"}
    assert len(read_labels(lined, [_filled(tmp_path / "a.csv", rows, lambda _: "1")])[1]) == 40


@pytest.mark.parametrize("said", [0, False])
def test_a_number_that_means_nothing_is_no_empty_cell(run, rows, tmp_path, said):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"item": rows[0]["item"], "better": said}) + "\n", encoding="utf-8")
    with pytest.raises(UnreadableFile, match="better is"):
        read_labels(run, [path])


def test_two_files_of_one_name_are_told_apart_by_renaming(run, rows, tmp_path):
    paths = [tmp_path / name / "labels.csv" for name in ("anna", "ben")]
    for path in paths:
        path.parent.mkdir()
        _filled(path, rows, lambda _: "1")
    with pytest.raises(BadOption, match="different names"):
        read_labels(run, paths)


def test_the_paragraph_names_the_models_of_judges_and_controls_no_terminal(run, rows, tmp_path):
    folder = tmp_path / "run"
    write_judged_run(folder, made_run(prompts=30, judge_models=("acme-large",)))
    path = _filled(tmp_path / "a.csv", rows, lambda _: "1")
    found = judge_trust(LabelledRun.of(*read_labels(JudgedMatches.read(folder), [path])))
    assert cite_paragraph(found).startswith("judge-one (acme-large) agrees")
    hostile = replace(found, judges=("\x1b[2J<b>",))
    assert "\x1b" not in trust_text(hostile)
    assert "<b>" not in trust_page(hostile)


def test_labels_of_the_sure_matches_alone_are_not_given_as_those_of_all(run, rows, tmp_path):
    sheet = run.draw(40, 0)
    path = _filled(tmp_path / "a.csv", rows, lambda k: "" if sheet.sample.stratum[k] else "1")
    found = judge_trust(LabelledRun.of(*read_labels(run, [path])))
    assert found.overall.agreed.value is not None
    assert found.overall.agreed.low is None
    assert "No match is labelled on which the judge leant" in trust_text(found)


def test_answers_that_a_sheet_cannot_show_are_refused(tmp_path):
    prompts = prompts_of(12)
    answers = [
        replace(one, kind="image") if k == 3 else one
        for k, one in enumerate(answers_of(prompts, list(STRENGTH)))
    ]
    write_judged_run(tmp_path / "run", made_run(prompts=prompts, answers=answers))
    with pytest.raises(BadOption):
        JudgedMatches.read(tmp_path / "run").draw(20, 0)


def test_a_sheet_that_may_be_a_copy_is_named(run, rows, tmp_path):
    paths = [_filled(tmp_path / name, rows, lambda k: "12"[k % 2]) for name in ("anna.csv", "anna (1).csv")]
    found = judge_trust(LabelledRun.of(*read_labels(run, paths)))
    assert found.copies == (("anna", "anna (1)"),)
    assert "anna (1)" in trust_text(found)
