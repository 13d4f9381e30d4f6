"""Win rates against a baseline from files and frames to the command line, the run folder and back."""

import json
from pathlib import Path

import pandas as pd
import pytest

import tiltyard
from support.command import run
from support.run_folders import copied, edit_json, failed
from tiltyard.errors import BadOption
from tiltyard.report.board_page import render_page
from tiltyard.runs.run_verification import verify_run

VERDICTS = ("A>>B", "A>B", "A=B", "B>A", "B>>A")


def judgments(path: Path, baseline: str | None = "base", category: str = "hard", judge: str = "j") -> Path:
    """Judgments of two models on 12 questions, in both orders; verdict k of 5 is how the baseline did as A and as B."""
    with path.open("a") as file:
        for model, shift in (("strong", 2), ("weak", 0)):
            for k in range(12):
                first, second = VERDICTS[min(k % 3 + shift, 4)], VERDICTS[max(2 - k % 4 + (2 - shift), 0) % 5]
                row = {
                    "uid": f"q{k}",
                    "category": category,
                    "judge": judge,
                    "model": model,
                    "baseline": baseline,
                }
                file.write(json.dumps(row | {"games": [{"score": first}, {"score": second}]}) + "\n")
    return path


def arena_hard_scores(path: Path, model: str) -> float:
    """The score of a model as arena-hard's own program counts it: each game, a strong verdict three times."""
    points = {
        "A>B": [1], "A>>B": [1] * 3, "A=B": [0.5], "A<<B": [0] * 3, "A<B": [0],
        "B>A": [0], "B>>A": [0] * 3, "B=A": [0.5], "B<<A": [1] * 3, "B<A": [1],
    }  # fmt: skip
    scores: list[float] = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row["model"] == model:
            first, second = (game["score"] for game in row["games"])
            scores += points[second] + [1 - point for point in points[first]]
    return sum(scores) / len(scores)


def annotations(path: Path, models: int = 2) -> Path:
    rows = [
        {
            "instruction": f"Question {k}", "output_1": "x" * (20 + 7 * k % 31), "generator_1": "base",
            "output_2": "y" * (20 + (11 * k + m) % 43), "generator_2": f"model-{m}", "annotator": "j",
            "dataset": "d", "preference": 1.0 + ((k * (3 + m)) % 11) / 10,
        }
        for m in range(models)
        for k in range(24)
    ]  # fmt: skip
    path.write_text(json.dumps(rows))
    return path


def test_arena_hard_numbers_are_those_of_arena_hard(tmp_path):
    path = judgments(tmp_path / "j.jsonl")
    board = tiltyard.rate(path)
    assert board.baseline is not None
    assert (board.baseline.baseline, board.baseline.rule) == ("base", "arena-hard")
    assert [row.model for row in board.baseline.rows] == ["strong", "weak"]
    for row in board.baseline.rows:
        assert row.win_rate == pytest.approx(arena_hard_scores(path, row.model))
        assert (row.battles, row.prompts, row.length_controlled) == (12, 12, None)
        assert row.win_rate_low < row.win_rate < row.win_rate_high


def test_ratings_do_not_weigh_strong_verdicts(tmp_path):
    """The board of the judgments is what it was: each question counts once."""
    path = judgments(tmp_path / "j.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["games"] = [{"score": game["score"].replace(">>", ">")} for game in row["games"]]
    weak = tmp_path / "weak.jsonl"
    weak.write_text("".join(json.dumps(row) + "\n" for row in rows))
    one, other = tiltyard.rate(path), tiltyard.rate(weak)
    assert [row.rating for row in one.rows] == pytest.approx([row.rating for row in other.rows])
    assert one.baseline.rows[1].win_rate != pytest.approx(other.baseline.rows[1].win_rate)


def test_alpaca_eval_numbers_are_mean_preferences(tmp_path):
    path = annotations(tmp_path / "annotations.json")
    board = tiltyard.rate(path)
    frame = pd.read_json(path)
    means = (frame.groupby("generator_2")["preference"].mean() - 1).to_dict()
    assert board.baseline.rule == "alpaca-eval"
    assert {row.model: row.win_rate for row in board.baseline.rows} == pytest.approx(means)
    assert all(row.length_controlled is not None for row in board.baseline.rows)
    shown = board.to_pandas().set_index("model")
    assert shown.loc["model-0", "win_rate"] == pytest.approx(means["model-0"])
    assert shown.loc["model-1", ["baseline_battles", "baseline_prompts"]].tolist() == [24, 24]
    assert shown.loc["base", ["win_rate", "length_controlled"]].isna().all()
    assert "against base" in str(board)
    assert "LC win" in board._repr_html_()
    assert json.loads(board.to_json())["baseline"]["rows"][0]["win_rate"] == pytest.approx(
        max(means.values())
    )


def test_older_judgments_need_the_name(tmp_path):
    path = judgments(tmp_path / "j.jsonl", baseline=None)
    result = run("rate", path)
    assert result.code == 2
    assert "--baseline" in result.err
    result = run("rate", path, "--baseline", "gpt-4-0314")
    assert "against gpt-4-0314" in " ".join(result.out.split())


def test_each_category_of_arena_hard_has_its_baseline(tmp_path):
    path = judgments(judgments(tmp_path / "j.jsonl"), "other", "creative")
    board = tiltyard.rate(path, by="category")
    assert board.baseline is None
    (finding,) = (finding for finding in board.findings if finding.name == "several-baselines")
    assert "base, other" in finding.text
    assert {name: group.baseline.baseline for name, group in board.groups.items()} == {
        "creative": "other", "hard": "base",
    }  # fmt: skip
    named = tiltyard.rate(path, baseline="other")
    assert named.baseline.rows[-1].model == "base"
    (note,) = named.baseline.rows[-1].notes
    assert f"base: {note}." in str(named)


ROWS = [
    {
        "model_a": "gpt-4",
        "model_b": "oak",
        "winner": ("model_a", "model_b", "tie")[k % 3],
        "question_id": f"q{k}",
    }
    for k in range(24)
] + [{"model_a": "elm", "model_b": "oak", "winner": "model_a", "question_id": f"q{k}"} for k in range(9)]


@pytest.mark.parametrize("method", ["elo", "glicko-2", tiltyard.BradleyTerry(level=0.8)])
def test_any_battles_can_have_a_baseline(method):
    board = tiltyard.rate(pd.DataFrame(ROWS), baseline="gpt-4", method=method)
    oak, elm = board.baseline.rows
    assert (oak.model, oak.win_rate, oak.battles) == ("oak", pytest.approx(0.5), 24)
    assert oak.win_rate_low < 0.5 < oak.win_rate_high
    assert (elm.win_rate, elm.battles) == (None, 0)
    assert tiltyard.rate(ROWS).baseline is None


def test_intervals_follow_the_options():
    none = tiltyard.rate(ROWS, baseline="gpt-4", intervals="none")
    assert (none.baseline.level, none.baseline.rows[0].win_rate_low) == (None, None)
    assert "interval" not in str(none).split("Win rate against")[1]
    assert tiltyard.rate(ROWS, baseline="gpt-4", intervals="battles").baseline.scope == "these prompts only"


def test_an_unknown_baseline():
    for name, said in (("gtp-4", r"gpt-4\?"), ("zzzzzzzzz", "elm, gpt-4, oak")):
        with pytest.raises(BadOption, match=said):
            tiltyard.rate(ROWS, baseline=name)


def test_groups_without_the_baseline_say_so():
    rows = [row | {"category": "x" if row["model_a"] == "gpt-4" else "y"} for row in ROWS]
    board = tiltyard.rate(rows, baseline="gpt-4", by="category")
    assert board.groups["x"].baseline.rows[0].battles == 24
    assert {row.win_rate for row in board.groups["y"].baseline.rows} == {None}
    columns = board.groups.to_columns()
    rates = {name: set() for name in ("Overall", *board.groups)}
    for name, rate in zip(columns["by"], columns["win_rate"], strict=True):
        rates[name].add(rate)
    assert rates["x"] == {None, *(row.win_rate for row in board.groups["x"].baseline.rows)}
    assert rates["y"] == {None}


@pytest.mark.parametrize("kind", ["alpaca-eval", "own", "by category"])
def test_the_folder_is_verified(kind, tmp_path):
    own = tmp_path / "own.jsonl"
    own.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    command = {
        "alpaca-eval": [annotations(tmp_path / "annotations.json")],
        "own": [own, "--baseline", "gpt-4"],
        "by category": [judgments(judgments(tmp_path / "c.jsonl"), "other", "creative"), "--by", "category"],
    }[kind]
    result = run("rate", *command, "--out", tmp_path / "run")
    assert result.code == 0, result.err
    assert "Win rate against" in result.out
    assert verify_run(tmp_path / "run").exact
    document = json.loads((tmp_path / "run" / "elo_ratings.json").read_text())
    group = document["groups"]["hard"] if kind == "by category" else document
    assert group["baseline"]["rows"][0]["win_rate"] is not None
    assert (group["baseline"]["rows"][0]["length_controlled"] is not None) == (kind == "alpaca-eval")
    assert "against a baseline" in (tmp_path / "run" / "report.html").read_text()


def test_a_forged_win_rate_is_found(tmp_path):
    run("rate", judgments(tmp_path / "j.jsonl"), "--out", tmp_path / "run")
    forged = copied(tmp_path / "run", tmp_path / "forged")
    edit_json(forged / "elo_ratings.json", lambda said: said["baseline"]["rows"][1].update(win_rate=0.99))
    assert "elo_ratings.json" in failed(verify_run(forged))


def test_the_first_models_only(tmp_path):
    path = judgments(tmp_path / "j.jsonl")
    shown = run("rate", path, "--top", "1").out.split("Win rate against")[1].split("few-battles")[0]
    assert "strong" in shown
    assert "weak" not in shown
    assert len(json.loads(run("rate", path, "--top", "1", "--json").out)["baseline"]["rows"]) == 1


def test_names_are_escaped(tmp_path):
    rows = [row | {"model_b": "<b>\x1b[31m"} for row in ROWS[:24]]
    board = tiltyard.rate(rows, baseline="gpt-4")
    page = render_page("Ratings", [board.rated])
    for text in (page, board._repr_html_()):
        assert "<b>\x1b" not in text
        assert "\x1b" not in text
    assert "\x1b" not in str(board)
