"""Small files in the shape of the published ones that docs/evidence/published-data.md rates; every row is made."""

import json
import re
from pathlib import Path

import pytest

import tiltyard

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "published-data.md"


def kinds(board):
    return {finding.name for finding in board.findings}


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run_lines_of_the_page(imports):
    """Those that begin with this import, in the current folder."""
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    [lines] = [block for block in blocks if block.startswith(f"import {imports}\n")]
    exec(compile(lines, PAGE.name, "exec"), {})


def judgment(question, model, *scores):
    return {
        "question_id": f"{question:032x}",
        "model": model,
        "judge": "ensemble",
        "games": [{"score": score} for score in scores],
    }


def test_judgments_with_nothing_but_verdicts(tmp_path):
    """As in ko-arena-hard-auto: the folder holds the baseline against itself, and a verdict may be missing."""
    write_lines(
        tmp_path / "oak (thinking).jsonl", [judgment(k, "oak (thinking)", "B>>A", "A=B") for k in range(30)]
    )
    write_lines(tmp_path / "base.jsonl", [judgment(k, "base", "A=B", "A=B") for k in range(30)])
    elm = [judgment(k, "elm", "A>B", "B>A") for k in range(30)]
    elm[4]["games"][1]["score"] = None
    write_lines(tmp_path / "elm.jsonl", elm)
    board = tiltyard.rate(tmp_path, baseline="base")
    assert board.baseline is not None
    rates = {row.model: (row.win_rate, row.battles) for row in board.baseline.rows}
    assert rates == {"oak (thinking)": (pytest.approx(3.5 / 4), 30), "elm": (0.0, 29)}
    assert "self-battles" in kinds(board)
    assert board.left_out[0].endswith("not be read")


def test_people_of_two_models_in_one_field(tmp_path, monkeypatch):
    """The lines of Python on the page, over rows in the shape of PandaLM's test set."""
    monkeypatch.chdir(tmp_path)
    pairs = [
        {
            "idx": k,
            "motivation_app": "an app",
            "cmp_key": "oak-7b_elm-6.9b",
            "instruction": "Say it shortly.",
            "input": f"A long sentence, number {k}.",
            "response1": "Short.",
            "response2": "Longer.",
            "annotator1": 1,
            "annotator2": (0, 1, 2)[k % 3],
            "annotator3": 2,
        }
        for k in range(30)
    ]
    (tmp_path / "testset-v1.json").write_text(json.dumps(pairs))
    run_lines_of_the_page("json")
    board = tiltyard.rate("people.jsonl")
    assert (board.n_battles, board["oak-7b"].wins, board["oak-7b"].ties) == (90, 40, 10)
    assert "few-voters" in kinds(board)


def test_winners_by_name_and_the_word_same(tmp_path, monkeypatch):
    """The lines of Python on the page, over rows in the shape of the annotated stories."""
    monkeypatch.chdir(tmp_path)
    rows = [f'x,"elm_7b,oak_7b","({k}, {k + 1})",{("oak_7b", "elm_7b", "same")[k % 3]}' for k in range(30)]
    (tmp_path / "7b_pairwise_annotations.csv").write_text(
        "\n".join(["plot,options,texts,overall_quality", *rows])
    )
    run_lines_of_the_page("csv")
    board = tiltyard.rate("stories.csv", outcomes={"same": "tie"})
    assert (board["oak_7b"].wins, board["oak_7b"].losses, board["oak_7b"].ties) == (10, 10, 10)


def test_votes_whose_judge_is_a_person(tmp_path):
    """As the human votes of MT-Bench: both turns of a question are one prompt, and the judge is the voter."""
    rows = [
        {
            "question_id": 81 + k,
            "model_a": "oak-13b",
            "model_b": "elm-13b",
            "winner": ("model_a", "model_b", "tie")[(k + turn) % 3],
            "judge": f"expert_{k % 3}",
            "conversation_a": [{"content": "Why?", "role": "user"}, {"content": "So.", "role": "assistant"}],
            "conversation_b": [{"content": "Why?", "role": "user"}, {"content": "No.", "role": "assistant"}],
            "turn": turn,
        }
        for k in range(30)
        for turn in (1, 2)
    ]
    votes = write_lines(tmp_path / "human.jsonl", rows)
    assert "few-voters" not in kinds(tiltyard.rate(votes))
    board = tiltyard.rate(votes, columns={"voter": "judge"})
    assert "few-voters" in kinds(board)
    assert board.rated.board.basis is not None
    assert board.rated.board.basis.startswith("30 prompts")
