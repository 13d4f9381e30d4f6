import json
import math
import random
from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.judged_worlds import Shown, match, observed, shown, worlds
from support.naive_diagnostics import naive
from support.sizes import sized
from tiltyard.core.battles.outcome import JUDGE_LABELS, Label
from tiltyard.core.judging.diagnostics.judge_diagnostics import VerdictObserver, list_judge_findings
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import QuestionState, Verdict, VerdictForm, VerdictStep
from tiltyard.errors import BadOption

FAMILIES = st.sampled_from([{}, {"j": "acme"}, {"j": "acme", "k": "bolt"}, {"j": "bolt", "k": "bolt"}])


def shares_of(diagnostics):
    names = [field.name for field in fields(diagnostics)]
    return {name: getattr(diagnostics, name) for name in names[names.index("flips") :]}


@given(worlds(), FAMILIES)
def test_every_share_equals_that_of_the_naive_twin(world, families):
    for one in observed(world, **families):
        expected, labels = naive(world, one.judge, one.dimension, families)
        assert shares_of(one) == expected
        assert one.labels == {label: labels[label] for label in JUDGE_LABELS}


@given(worlds(), FAMILIES, st.randoms(use_true_random=False))
def test_the_order_in_which_questions_are_shown_does_not_matter(world, families, rng):
    mixed = rng.sample(world, len(world))
    assert observed(world, **families) == observed(mixed, **families)


@given(worlds(), FAMILIES)
def test_names_of_models_do_not_matter(world, families):
    names = dict(zip("abcd", ["zed", "ypsilon", "x", "w"], strict=True))
    renamed = [
        (
            Question(
                q.judge,
                q.dimension,
                q.prompt_id,
                names[q.first],
                names[q.second],
                q.purpose,
                q.replicate,
                q.spoilt,
            ),
            *rest,
        )
        for q, *rest in world
    ]
    assert observed(world, **families) == observed(renamed, **families)


@given(worlds(), FAMILIES)
def test_the_document_is_plain_finite_json_and_findings_can_be_drawn(world, families):
    found = observed(world, **families)
    for one in found:
        document = one.to_dict()
        assert json.loads(json.dumps(document, allow_nan=False)) == document
        assert document["questions"] == sum(document["states"].values())
        for share in shares_of(one).values():
            assert share is None or share.low <= share.value <= share.high
    for finding in list_judge_findings(found):
        assert finding.text.endswith(".")
        assert finding.advice.endswith(".")


@given(worlds())
def test_swapping_the_slots_of_everything_mirrors_the_slot_preference_alone(world):
    mirror = dict(zip(VerdictStep, reversed(VerdictStep), strict=True))
    turned = [
        (question, state, verdict and Verdict(mirror[verdict.step], verdict.both_bad, ""), traits)
        for question, state, verdict, traits in world
    ]
    for one, other in zip(observed(world), observed(turned), strict=True):
        assert (one.flips, one.inconsistent, one.labels) == (other.flips, other.inconsistent, other.labels)
        assert (one.first_slot is None) == (other.first_slot is None)
        if one.first_slot is not None:
            assert math.isclose(one.first_slot.value, 1.0 - other.first_slot.value, abs_tol=1e-12)
            assert math.isclose(one.first_slot.low, 1.0 - other.first_slot.high, abs_tol=1e-12)


def test_a_judge_is_described_over_all_dimensions_first_and_judges_stand_by_name():
    world = [shown("A>B", judge=judge, dimension=dimension) for judge in "kj" for dimension in "yx"]
    found = [(one.judge, one.dimension) for one in observed(world)]
    assert found == [("j", None), ("j", "x"), ("j", "y"), ("k", None), ("k", "x"), ("k", "y")]


def test_failed_questions_are_counted_by_state_and_nothing_else_is_said():
    (one, _) = observed(
        [shown(None, prompt=str(k), state=state) for k, state in enumerate(QuestionState) if k]
    )
    assert one.states == {state: int(state is not QuestionState.OK) for state in QuestionState}
    assert all(share is None for share in shares_of(one).values())


def test_both_bad_twice_has_the_winner_that_both_orders_chose():
    world = [shown("A>B", both_bad=True), shown("B>A", first="c", second="a", both_bad=True)]
    one = observed(world, j="acme")[0]
    assert (one.labels[Label.WIN], one.both_bad) == (1, 1)
    assert one.own_family.value == 1.0
    assert one.to_dict()["both_bad"] == 1


def test_the_same_question_twice_is_an_error():
    with pytest.raises(BadOption, match="twice"):
        observed([shown("A>B"), shown("A>B")])


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ((Question("j", "x", "p", "a", "b"), QuestionState.OK, None), "only|nothing else"),
        (
            (Question("j", "x", "p", "a", "b"), QuestionState.REFUSED, Verdict(VerdictStep.EVEN, False, "")),
            "is refused with",
        ),
        (
            (Question("j", "x", "p", "a", "a", QuestionPurpose.GARBAGE), QuestionState.LOST, None),
            "has spoilt None",
        ),
        (
            (Question("j", "x", "p", "a", "b", QuestionPurpose.REPEAT), QuestionState.LOST, None),
            "has replicate 0",
        ),
    ],
)
def test_what_cannot_be_is_refused(row, problem):
    with pytest.raises(BadOption, match=problem):
        VerdictObserver().add(*row)


def test_a_verdict_costs_few_bytes():
    observer = VerdictObserver()
    rng = random.Random(0)
    for prompt in range(200):
        for first, second in ("ab", "ba", "ac", "ca"):
            observer.add(
                *shown(rng.choice(list(VerdictStep)), prompt=str(prompt), first=first, second=second)
            )
    (rows,) = observer._rows.values()
    assert rows.buffer_info()[1] * rows.itemsize == 24 * 800
    assert observer.diagnostics() == observer.diagnostics()
    observer.add(*shown("A=B", prompt="later"))


PROMPTS = 40


def named(world: list[Shown], **families: str | None) -> set[str]:
    return {finding.name for finding in list_judge_findings(observed(world, **families))}


def on_prompts(row: Callable[[str], list[Shown]], n: int = PROMPTS) -> list[Shown]:
    return [one for k in range(n) for one in row(f"p{k}")]


def fair_match(prompt: str) -> list[Shown]:
    """a wins on even prompts, c on odd ones, in both orders."""
    steps = ("A>B", "B>A") if int(prompt[1:]) % 2 else ("B>A", "A>B")
    return match(*steps, prompt=prompt)


def test_a_fair_and_steady_judge_raises_nothing():
    world = on_prompts(fair_match)
    for k in range(6):
        where = {"prompt": f"p{k}", "second": "a"}
        world.append(shown("A=B", purpose=QuestionPurpose.IDENTICAL, spoilt=0, **where))
        world.append(shown("B>>A", purpose=QuestionPurpose.TRUNCATED, spoilt=0, **where))
        world.append(shown("A>B", purpose=QuestionPurpose.GARBAGE, spoilt=1, **where))
        world.append(
            shown(fair_match(f"p{k}")[0][2].step, prompt=f"p{k}", purpose=QuestionPurpose.REPEAT, replicate=1)
        )
    assert named(world, j="acme") == set()


@pytest.mark.parametrize(("step", "word"), [("A>B", "shown first"), ("B>A", "shown second")])
def test_a_judge_that_always_takes_one_slot_prefers_it_and_flips(step, word):
    found = list_judge_findings(observed(on_prompts(lambda p: match(step, step, prompt=p))))
    assert [finding.name for finding in found] == ["slot-preference", "flips-often"]
    assert word in found[0].text


def test_longer_responses_or_lists_that_always_win_are_found():
    world = on_prompts(lambda p: match("B>A", "A>B", prompt=p, first="a", second="c"))
    assert named(world) == {"prefers-longer"}
    world = on_prompts(lambda p: match("A>B", "B>A", prompt=p, first="b", second="c"))
    assert named(world) == {"prefers-lists"}


def test_own_family_that_always_wins_is_weighed_against_other_judges():
    ours = on_prompts(lambda p: match("A>B", "B>A", prompt=p))
    assert named(ours, j="acme") == {"prefers-own-family"}
    (alone,) = list_judge_findings(observed(ours, j="acme"))
    assert "merit" in alone.text
    agreeing = on_prompts(lambda p: match("A>B", "B>A", prompt=p, judge="k"))
    assert named(ours + agreeing, j="acme", k="bolt") == set()
    opposed = on_prompts(lambda p: match("B>A", "A>B", prompt=p, judge="k"))
    names = [
        (finding.name, finding.text[:2])
        for finding in list_judge_findings(observed(ours + opposed, j="acme", k="bolt"))
    ]
    assert ("prefers-own-family", "j ") in names
    assert ("prefers-own-family", "k ") in names


def test_repeats_that_differ():
    world = on_prompts(fair_match, 12)
    world += [shown("A=B", prompt=f"p{k}", purpose=QuestionPurpose.REPEAT, replicate=1) for k in range(12)]
    assert named(world) == {"disagrees-with-itself"}


def test_canaries_that_fail_are_named_with_their_counts():
    world = [
        shown(step, prompt=f"p{k}", second="a", purpose=QuestionPurpose.GARBAGE, spoilt=0)
        for k, step in enumerate(["B>A", "A>B", "A=B"])
    ]
    found = [finding for finding in list_judge_findings(observed(world)) if finding.name == "fails-canaries"]
    assert len(found) == 1
    assert "garbage 1 of 3" in found[0].text


@pytest.mark.parametrize(
    ("state", "name"),
    [
        (QuestionState.REFUSED, "refuses"),
        (QuestionState.TRUNCATED, "truncates"),
        (QuestionState.UNPARSEABLE, "unparseable"),
        (QuestionState.PROVIDER_ERROR, None),
    ],
)
def test_verdicts_that_are_missing(state, name):
    lost = [shown(None, prompt=f"q{k}", state=state) for k in range(4)]
    assert named(on_prompts(fair_match) + lost) == ({name} if name else set())
    assert named(on_prompts(fair_match, 200) + lost) == set()


@pytest.mark.parametrize("form", list(VerdictForm))
def test_no_form_is_recommended_to_those_who_use_it(form):
    lost = [shown(None, prompt=f"q{k}", state=QuestionState.UNPARSEABLE) for k in range(4)]
    [finding] = list_judge_findings(observed(on_prompts(fair_match) + lost), {"j": form})
    recommended = finding.advice.partition(":")[0]
    assert form.value not in recommended
    assert all(other.value in recommended for other in VerdictForm if other is not form)


def test_what_is_said_of_a_judge_is_not_said_again_by_dimension():
    def everywhere(p):
        return [row for d in "xy" for row in match("A>B", "A>B", prompt=p, dimension=d)]

    assert [finding.name for finding in list_judge_findings(observed(on_prompts(everywhere)))] == [
        "slot-preference",
        "flips-often",
    ]


def test_what_holds_in_one_dimension_only_is_said_of_it():
    world = on_prompts(lambda p: match("A>B", "A>B", prompt=p, dimension="y"), 20)
    for k in range(1000):
        world += [(row[0], *row[1:]) for row in fair_match(f"p{k}")]
    texts = [finding.text for finding in list_judge_findings(observed(world))]
    assert any(text.startswith("j (y) prefers") for text in texts)


def test_a_preference_that_is_certain_but_a_trifle_is_not_named():
    def slightly(p):
        steps = ("A>B", "A>B") if int(p[1:]) % 40 == 0 else ("A>B", "B>A")
        return (
            match(*steps, prompt=p, first="b", second="a")
            if int(p[1:]) % 2
            else match(*steps[::-1], prompt=p, first="b", second="a")
        )

    world = on_prompts(slightly, 4000)
    slot = observed(world)[0].first_slot
    assert slot.low > 0.5
    assert "slot-preference" not in named(world)


def test_fair_coins_are_rarely_accused():
    """Random verdicts have no preference, and one in twenty intervals may say so wrongly."""
    accused = 0
    for seed in range(sized(40, 100)):
        rng = np.random.default_rng(seed)
        world = on_prompts(lambda p, rng=rng: match(*rng.choice(["A>B", "B>A"], 2), prompt=p))
        accused += len(named(world) & {"slot-preference", "prefers-longer"})
    assert accused <= sized(8, 20)
