import itertools

import pytest

from tiltyard.core.battles.outcome import (
    DECISIVE,
    KIND_COUNT,
    SPELLED,
    Kind,
    Label,
    Outcome,
    kind_of,
    parse_label,
    parse_outcome,
)
from tiltyard.errors import BadBattle

SPELLINGS = {
    Outcome.MODEL_A: ["model_a", "Model A", "A", "modelA", "model-a"],
    Outcome.MODEL_B: ["model_b", "B", " b "],
    Outcome.TIE: ["tie", "TIE"],
    Outcome.BOTH_BAD: ["both_bad", "bothbad", "BothBad", "tie (bothbad)", "tie (both_bad)"],
}

KIND_OF = {
    (Outcome.MODEL_A, None): Kind.WIN_A,
    (Outcome.MODEL_A, Label.WIN): Kind.WIN_A,
    (Outcome.MODEL_A, Label.LEAN): Kind.LEAN_A,
    (Outcome.MODEL_B, None): Kind.WIN_B,
    (Outcome.MODEL_B, Label.WIN): Kind.WIN_B,
    (Outcome.MODEL_B, Label.LEAN): Kind.LEAN_B,
    (Outcome.TIE, None): Kind.TIE,
    (Outcome.TIE, Label.TIE): Kind.TIE,
    (Outcome.TIE, Label.INCONSISTENT): Kind.INCONSISTENT,
    (Outcome.BOTH_BAD, None): Kind.BOTH_BAD,
    (Outcome.BOTH_BAD, Label.BOTH_BAD): Kind.BOTH_BAD,
}


@pytest.mark.parametrize(("outcome", "text"), [(o, text) for o, texts in SPELLINGS.items() for text in texts])
def test_an_outcome_may_be_spelt_in_several_ways(outcome, text):
    assert parse_outcome(text) is outcome


@pytest.mark.parametrize("text", ["", "draw?", "model_c", "ab", "error", None, 1, 0.5, True, ["a"]])
def test_what_spells_no_outcome_is_an_error_and_never_a_tie(text):
    with pytest.raises(BadBattle) as caught:
        parse_outcome(text)
    assert repr(text) in str(caught.value)


def test_a_label_is_spelt_as_it_is_called_or_absent():
    for label in Label:
        assert parse_label(label.value) is parse_label(label) is label
    assert parse_label(None) is parse_label("") is None
    for text in ("Win", "strong", 3):
        with pytest.raises(BadBattle, match=str(text)):
            parse_label(text)


@pytest.mark.parametrize(("outcome", "label"), list(itertools.product(Outcome, [None, *Label])))
def test_a_label_agrees_with_its_outcome_or_is_refused(outcome, label):
    if (outcome, label) in KIND_OF:
        assert kind_of(outcome, label) is KIND_OF[outcome, label]
    else:
        with pytest.raises(BadBattle, match=f"{label} .* {outcome}$"):
            kind_of(outcome, label)


@pytest.mark.parametrize(("outcome", "label"), KIND_OF)
def test_a_judges_flag_makes_another_kind_of_the_same_outcome(outcome, label):
    plain, flagged = KIND_OF[outcome, label], kind_of(outcome, label, both_bad=True)
    assert (flagged.plain, plain.plain, plain.flagged) == (plain, plain, False)
    assert flagged.flagged == (outcome is not Outcome.BOTH_BAD)
    assert SPELLED[flagged] == SPELLED[plain]


def test_every_kind_is_reached():
    assert {kind for plain in KIND_OF.values() for kind in (plain, plain.with_flag)} == set(Kind)
    assert sorted(Kind) == list(range(KIND_COUNT))
    assert {Outcome.MODEL_A, Outcome.MODEL_B} == DECISIVE


def test_every_kind_is_spelled_and_read_back():
    spelled = {kind: kind_of(*SPELLED[kind], both_bad=kind.flagged) for kind in Kind}
    assert spelled == {kind: kind for kind in Kind}
