"""The data of the verdict browser: small parts, cut texts, nothing lost."""

import json
import re
from dataclasses import replace

import pytest

from support.judged_runs import judged_of, made_run
from tiltyard.core.judging.question import QuestionPurpose
from tiltyard.core.judging.reconciliation import group_verdicts
from tiltyard.core.judging.verdict import QuestionState, Reply, Verdict, VerdictForm, VerdictStep
from tiltyard.report import verdict_parts
from tiltyard.report.verdict_parts import (
    BrowserHead,
    PartCounts,
    VerdictParts,
    browser_address,
    browser_section,
)
from tiltyard.runs.verdict_pass import answers_of

JUDGES = ("judge-one", "judge-two")


def parts_of(run):
    """The parts by name, and what made them."""
    found = {}
    made = VerdictParts(
        found.__setitem__,
        run.draft.judges,
        run.draft.entrants,
        {(one.model, one.prompt_id): one.response for one in run.answers},
    )
    assert list(made.texts(answers_of(run))) == list(answers_of(run))
    for number, dimension in enumerate(run.dimensions):
        assert list(made.verdicts(number, run.judged(dimension))) == list(run.judged(dimension))
    return {name: value_of(name, data) for name, data in found.items()}, made


def value_of(name, data):
    """As a browser reads it: one call with a name and JSON, in ASCII and without markup."""
    text = data.decode("ascii")
    assert not re.search(r"[<>&]", text.removeprefix("tiltyardPart("))
    head, rest = text.split(",", 1)
    assert head == f'tiltyardPart("{name}"'
    assert rest.endswith(");\n")
    return json.loads(rest.removesuffix(");\n"))


def rows_of(found):
    """The rows of the index with the value that each of them points to."""
    places = {}
    for name, part in found.items():
        if not name.startswith("index"):
            continue
        for number, together in part["rows"]:
            for line in together.split(";"):
                prompt, *rest = line.split(" ")
                place = places[number] = places.get(number, -1) + 1
                said = found[f"verdicts-{number:04d}"][place]
                yield part["dimension"], part["prompts"][int(prompt)], rest, said


@pytest.fixture(params=[48_000, 500], ids=["one part", "many parts"])
def sized_parts(request, monkeypatch):
    monkeypatch.setattr(verdict_parts, "_PART_BYTES", request.param)
    monkeypatch.setattr(verdict_parts, "_INDEX_PART_BYTES", request.param)
    monkeypatch.setattr(verdict_parts, "_PART_GROWTH_COUNT", 4)
    return request.param


def test_every_group_is_found_with_what_was_said(sized_parts):
    run = made_run(prompts=6, judges=JUDGES, missing=[("ash", "p00003")])
    found, made = parts_of(run)
    counts = made.counts
    assert counts == PartCounts(
        *(sum(name.startswith(kind) for name in found) for kind in ("index", "texts", "verdicts"))
    )
    assert (counts.texts > 1) is (sized_parts == 500)
    assert made.categories == ("a", "b")
    rows = rows_of(found)
    for number, dimension in enumerate(run.dimensions):
        line = 1
        for group in group_verdicts(run.judged(dimension)):
            place, prompt, rest, value = next(rows)
            assert (place, prompt[0]) == (number, group.prompt_id)
            assert [run.draft.entrants[int(side)] for side in rest[:2]] == [group.model_a, group.model_b]
            for one, told in zip(group.judged, value["said"], strict=True):
                assert [run.draft.judges[told[0]], told[1], told[2]] == [
                    one.question.judge,
                    one.question.order,
                    one.state,
                ]
                assert told[3] == (one.verdict and one.verdict.step)
                assert told[7] == line
                line += 1
            if group.purpose is QuestionPurpose.MATCH:
                assert ("x" in rest[2]) == group.flips()
                assert ("-" in rest[2]) == group.lacks()
                assert value.keys() == {"said"}
            else:
                assert (rest[2] == "!") == group.failed
                assert run.draft.judges[int(rest[4])] == group.judged[0].question.judge
    assert next(rows, None) is None


def test_texts_are_found_by_the_index():
    run = made_run(prompts=3)
    run = replace(run, prompts=[replace(run.prompts[0], gold="42", text="Why?\n " * 60), *run.prompts[1:]])
    found, _ = parts_of(run)
    prompt = next(rows_of(found))[1]
    assert prompt[2] == ("Why? " * 60)[:90] + "…"
    text, length, line, gold, expected, responses = found[f"texts-{prompt[3]:04d}"][prompt[4]]
    assert (text, length, line, gold, expected) == ("Why?\n " * 60, 360, 1, ["42", 2], None)
    assert [one[3] for one in responses] == [1, 2, 3, 4]
    answers = {(one.model, one.prompt_id): one.response for one in run.answers}
    for model, response, size, _, cut, context in responses:
        assert answers[run.draft.entrants[model], prompt[0]] == response
        assert (size, cut, context) == (len(response), 0, [])


def test_planted_questions_show_their_copy():
    run = made_run(prompts=4, checks=3)
    run = replace(
        run, answers=[replace(one, response=f"{one.model} " + "a b c d e f g " * 9) for one in run.answers]
    )
    found, _ = parts_of(run)
    planted = [(rest, value) for _, _, rest, value in rows_of(found) if len(rest) > 3]
    kinds = {rest[3] for rest, _ in planted}
    assert kinds == {"i", "t", "g", "r"}
    for rest, value in planted:
        if rest[3] == "r":
            assert "copy" not in value
            assert "before" in value
            continue
        whole = f"{run.draft.entrants[int(rest[0])]} " + "a b c d e f g " * 9
        copy, length = value["copy"]
        assert length == len(copy)
        assert (copy == whole) is (rest[3] == "i")
        assert (copy == whole[: len(copy)]) is (rest[3] != "g")


def test_long_texts_are_cut_and_say_so():
    run = made_run(prompts=1, checks=0, fate=lambda q: said(q, "why " * 5_000))
    run = replace(run, answers=[replace(one, response="x" * 1_000_000) for one in run.answers])
    found, _ = parts_of(run)
    assert found["texts-0000"][0][5][0][1:3] == ["x" * 20_000, 1_000_000]
    assert found["verdicts-0000"][0]["said"][0][5:7] == ["why " * 1_500, 20_000]


def said(question, reasoning):
    one = judged_of(question)
    reply = Reply(json.dumps({"reasoning": reasoning, "verdict": "A>B", "both_bad": False}))
    verdict = Verdict(VerdictStep.FIRST, both_bad=False, reasoning=reasoning)
    return replace(one, reply=reply, state=QuestionState.OK, verdict=verdict, problem=None)


def test_a_reply_without_a_verdict_is_shown_as_it_came():
    def silent(question):
        one = judged_of(question)
        replies = [
            Reply("Rather not.", None, "refusal"),
            Reply(None, {"verdict": 3}, "end"),
            Reply(None),
            None,
        ]
        reply = replies[question.order + 2 * (question.first == "ash" or question.second == "ash")]
        form = VerdictForm.TOOL
        return replace(
            one, reply=reply, state=QuestionState.UNPARSEABLE, verdict=None, problem="no verdict", form=form
        )

    found, _ = parts_of(made_run(prompts=1, checks=1, fate=silent))
    told = {
        tuple(one[5:])
        for part in found
        if part.startswith("verdicts")
        for row in found[part]
        for one in row["said"]
    }
    assert {text for text, *_ in told} == {"Rather not.", '{"verdict": 3}', ""}
    assert all(problem == "no verdict" for *_, problem in told)
    assert {rest[2] for _, _, rest, _ in rows_of(found)} == {"-"}


def test_a_run_without_matches_has_no_section():
    found, made = parts_of(made_run(prompts=2, limit_pairs=0))
    assert made.counts == PartCounts(0, 1, 0)
    head = BrowserHead(JUDGES, ("x",), ("d",), (), 0)
    assert browser_section(head) == ""
    assert list(found) == ["texts-0000"]


def test_one_judge_cannot_disagree():
    many = browser_section(BrowserHead(JUDGES, ("x", "y"), ("d", "e"), ("c", "<b>"), 1))
    one = browser_section(BrowserHead(JUDGES[:1], ("x", "y"), ("d",), (), 1))
    assert 'value="disputed"' in many
    assert 'name="judge"' in many
    assert "<b>&" not in many
    assert 'value="&lt;b&gt;"' in many
    for absent in ('value="disputed"', 'name="judge"', 'name="dimension"', 'name="category"'):
        assert absent not in one


def test_addresses_are_quoted():
    assert (
        browser_address("flips", judge="a&b=c/ü", dimension=None)
        == "#said?show=flips&judge=a%26b%3Dc%2F%C3%BC"
    )
    assert browser_address(a="x", b="\ud800") == "#said?a=x&b=%3F"
