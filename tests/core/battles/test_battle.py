import json
import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.battles import Battle, Label, Outcome
from tiltyard.core.battles.battle import TIE_PREF_TOLERANCE, pref_contradicts
from tiltyard.errors import BadBattle, InputError, TiltyardError

PAIR = {"model_a": "oak", "model_b": "elm"}
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def row(**more):
    return PAIR | {"winner": "model_a"} | more


def problem(given):
    with pytest.raises(BadBattle) as caught:
        Battle.from_dict(given)
    return str(caught.value)


LABELS = {
    Outcome.MODEL_A: [None, Label.WIN, Label.LEAN],
    Outcome.MODEL_B: [None, Label.WIN, Label.LEAN],
    Outcome.TIE: [None, Label.TIE, Label.INCONSISTENT],
    Outcome.BOTH_BAD: [None, Label.BOTH_BAD],
}
NAMES = st.text(min_size=1).filter(str.strip)
WORDS = st.none() | st.text()


@st.composite
def any_battle(draw):
    winner = draw(st.sampled_from(Outcome))
    label = draw(st.sampled_from(LABELS[winner]))
    pref = draw(st.none() | st.floats(0.0, 1.0))
    if pref is not None and pref_contradicts(winner, label, pref):
        pref = 0.5
    texts = ("source", "question_id", "judge_model", "dimension", "category", "language", "voter")
    known = {*Battle.__slots__, "outcome"}
    return Battle(
        model_a=draw(NAMES),
        model_b=draw(NAMES),
        winner=winner,
        label=label,
        both_bad=draw(st.sampled_from([None, False, True])),
        pref=pref,
        time=draw(st.none() | st.datetimes(datetime(1970, 1, 2), timezones=st.just(UTC))),
        position=draw(st.none() | st.integers(0)),
        weight=draw(st.none() | st.floats(0.0, 1e12)),
        extra=draw(
            st.dictionaries(st.text().filter(lambda key: key not in known), st.integers() | st.text())
        ),
        **{name: draw(WORDS) for name in texts},
    )


@given(any_battle())
def test_a_battle_written_and_read_again_is_the_same_battle(battle):
    assert Battle.from_dict(battle.to_dict()) == battle
    assert Battle.from_dict(json.loads(json.dumps(battle.to_dict()))) == battle


def test_only_the_names_and_the_winner_are_needed():
    battle = Battle.from_dict(row())
    assert battle == Battle(model_a="oak", model_b="elm", winner=Outcome.MODEL_A)
    assert battle.to_dict() == row(source=None, question_id=None, judge_model=None)


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        *((None, None), ("", None), (True, True), (False, False)),
        *(("true", True), ("False", False), ("1", True), ("0", False), (1, True), (0, False)),
    ],
)
def test_a_judges_flag_may_be_spelled_as_csv_does(given, flag):
    battle = Battle.from_dict(row(both_bad=given))
    assert battle.both_bad is flag
    assert battle.kind.flagged is bool(flag)
    assert battle.kind.plain is Battle.from_dict(row()).kind


def test_a_field_by_its_name():
    battle = Battle.from_dict({"model_a": "a", "model_b": "b", "winner": "tie", "turn": 3})
    assert [battle.value(name) for name in ("model_b", "language", "turn", "other")] == ["b", None, 3, None]


WRONG = {
    "both_bad": ["yes", 2, 0.0, 1.0, [True]],
    "outcome": ["tie"],
    "winner": [None],
    "model_a": [None, "", "  ", 7.5, True, ["oak"]],
    "model_b": [None, " "],
    "question_id": [True, 1.5, ["q"], {}],
    "pref": [-0.1, 1.5, float("nan"), "0.5", True, 10**400],
    "weight": [-1, float("nan"), float("inf"), "2", False, 10**400],
    "position": [-1, 2.0, True, "3"],
    "time": ["noon", "", True, [], float("nan"), float("inf"), 10**20, "0001-01-01T00:00:00+05:00"],
    "label": ["tie"],
}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_value_is_refused_with_its_field(field):
    for value in WRONG[field]:
        said = problem(row(**{field: value}))
        assert field in said
        assert str(value)[:80] in said


def test_unknown_fields_are_kept_and_written_back():
    battle = Battle.from_dict(row(mood={"a": 1}))
    assert battle.extra == {"mood": {"a": 1}}
    assert battle.to_dict()["mood"] == {"a": 1}
    with pytest.raises(TypeError):
        battle.extra["mood"] = 2


def test_the_winner_may_be_called_outcome():
    assert Battle.from_dict(PAIR | {"outcome": "tie"}).winner is Outcome.TIE
    agreed = Battle.from_dict(PAIR | {"winner": "B", "outcome": "model_b"})
    assert agreed.winner is Outcome.MODEL_B
    assert "outcome" not in agreed.to_dict()


def test_whole_numbers_may_name_prompts_and_be_weights():
    battle = Battle.from_dict(row(question_id=17, voter="v", weight=3, position=0))
    assert (battle.question_id, battle.voter, battle.position) == ("17", "v", 0)
    assert (battle.weight, type(battle.weight)) == (3.0, float)


@pytest.mark.parametrize(
    "moment",
    [
        NOON,
        datetime(2024, 5, 1, 12),
        datetime(2024, 5, 1, 14, tzinfo=timezone(timedelta(hours=2))),
        "2024-05-01T12:00:00",
        "2024-05-01T12:00:00Z",
        "2024-05-01T14:00:00+02:00",
        1714564800,
        1714564800.0,
    ],
)
def test_a_moment_has_several_forms_and_is_kept_in_utc(moment):
    time = Battle.from_dict(row(time=moment)).time
    assert time == NOON
    assert time.tzinfo is UTC


@pytest.mark.parametrize(
    ("winner", "label", "pref", "contradicts"),
    [
        ("model_a", None, 0.5, False),
        ("model_a", None, 0.49, True),
        ("model_b", None, 0.5, False),
        ("model_b", "lean", 0.51, True),
        ("tie", None, 0.5 + TIE_PREF_TOLERANCE, False),
        ("tie", None, 0.5 - TIE_PREF_TOLERANCE, False),
        ("tie", None, 0.76, True),
        ("tie", "tie", 0.24, True),
        ("tie", "inconsistent", 0.99, False),
        ("both_bad", None, 0.99, False),
    ],
)
def test_a_preference_must_not_contradict_the_winner(winner, label, pref, contradicts):
    given = row(winner=winner, label=label, pref=pref)
    if contradicts:
        assert str(pref) in problem(given)
    else:
        assert Battle.from_dict(given).pref == pref


def test_a_bad_battle_says_where_once_that_is_known():
    assert str(BadBattle("nameless", where="log.jsonl, line 3")) == "log.jsonl, line 3: nameless"
    assert BadBattle("no name").where is None
    assert issubclass(BadBattle, InputError)
    assert issubclass(InputError, TiltyardError)


def test_a_battle_can_be_sent_to_another_process():
    battle = Battle.from_dict({"model_a": "a", "model_b": "b", "winner": "tie", "weather": "fair"})
    assert pickle.loads(pickle.dumps(battle)) == battle
