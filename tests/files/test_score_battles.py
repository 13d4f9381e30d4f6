"""`battles_from_scores`: tables of scores in either shape become battles."""

import pandas as pd
import pyarrow as pa
import pytest

import tiltyard
from tiltyard.errors import BadOption, CannotRate, UnreadableFile

LONG = pd.DataFrame(
    [
        ("p1", "x", 0.9),
        ("p1", "y", 0.5),
        ("p1", "z", None),
        ("p2", "x", 0.3),
        ("p2", "y", 0.1 + 0.2),
        ("p2", "z", 0.35),
        ("p3", "x", 1.0),
        ("p3", "x", 0.0),
        ("p3", "y", 0.6),
    ],
    columns=["prompt", "model", "score"],
)
WIDE = LONG.pivot_table(index="prompt", columns="model", values="score")
BATTLES = {
    ("x", "y", "model_a", "p1"),
    ("x", "y", "tie", "p2"),
    ("x", "z", "model_b", "p2"),
    ("y", "z", "model_b", "p2"),
    ("x", "y", "model_b", "p3"),
}


def battles(data, **options):
    rows = tiltyard.battles_from_scores(data, **options).to_pylist()
    return {tuple(row[name] for name in ("model_a", "model_b", "winner", "question_id")) for row in rows}


def test_either_shape_gives_the_same_battles(tmp_path):
    LONG.to_csv(tmp_path / "scores.csv", index=False)
    forms = [LONG, LONG.to_dict("records"), pa.table(LONG), tmp_path / "scores.csv", WIDE.reset_index()]
    assert all(battles(form) == BATTLES for form in forms)
    renamed = LONG.set_axis(["a", "b", "c"], axis=1)
    assert battles(renamed, item="a", model="b", score="c") == BATTLES
    # A pivoted frame has its items in the index: each row is one.
    assert {battle[:3] for battle in battles(WIDE)} == {battle[:3] for battle in BATTLES}


def test_a_margin_makes_ties_and_less_may_be_better():
    assert {row[2] for row in battles(LONG, margin=0.1) if row[3] != "p1"} == {"tie"}
    turned = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
    assert battles(LONG, lower_is_better=True) == {(a, b, turned[w], p) for a, b, w, p in BATTLES}


def test_right_and_wrong_are_scores():
    frame = pd.DataFrame({"id": [1, 2, 3] * 20, "a": [True, True, False] * 20, "b": [True, False, True] * 20})
    board = tiltyard.rate(tiltyard.battles_from_scores(frame.assign(id=range(60))))
    assert (board["a"].wins, board["a"].losses, board["a"].ties) == (20, 20, 20)


@pytest.mark.parametrize(
    ("data", "options", "error"),
    [
        (LONG, {"margin": -1}, BadOption),
        (LONG, {"score": "points"}, BadOption),
        (LONG.rename(columns={"prompt": "which"}), {}, BadOption),
        (LONG.assign(score="good"), {}, UnreadableFile),
        (LONG.assign(model=None), {}, UnreadableFile),
        (LONG[LONG.model == "x"], {}, CannotRate),
        (17, {}, BadOption),
    ],
)
def test_what_cannot_be_read_is_said(data, options, error):
    with pytest.raises(error):
        tiltyard.battles_from_scores(data, **options)
