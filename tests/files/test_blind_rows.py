"""Votes whose voter knew a name stand in an arena's export, and are in no rating."""

from pathlib import Path

import pytest

from tiltyard.core.battles.battle import Battle
from tiltyard.core.battles.outcome import Outcome
from tiltyard.files.battle_source import open_battles
from tiltyard.files.battle_tables import count_table
from tiltyard.files.battle_writer import stream_battles

KNEW = ("the voter knew the name of a model (blind is false)", 2)


def exported(folder: Path, container: str, extras: list[dict[str, object]]) -> str:
    battles = (
        Battle(model_a="x", model_b="y", winner=Outcome.MODEL_A, question_id=f"p{k}", extra=extra)
        for k, extra in enumerate(extras)
    )
    path = folder / f"battles.{container}"
    path.write_bytes(b"".join(stream_battles(container, battles)))
    return str(path)


@pytest.mark.parametrize("container", ["jsonl", "csv", "parquet"])
def test_votes_that_were_not_blind_are_left_out_and_counted(tmp_path, container):
    source = open_battles(exported(tmp_path, container, [{"blind": k not in (1, 4)} for k in range(6)]))
    assert [battle.question_id for battle in source.battles()] == ["p0", "p2", "p3", "p5"]
    assert source.notes == (KNEW,)
    assert count_table([source]).n_battles == 4
    assert source.notes == (KNEW,)
    (batch,) = source.batches()
    assert batch.column("blind").to_pylist() in ([True] * 4, ["true"] * 4, ["True"] * 4)
    (batch,) = source.batches(["model_a", "label"])
    assert batch.schema.names == ["model_a"] or batch.schema.names == ["model_a", "label"]
    assert batch.num_rows == 4


@pytest.mark.parametrize("word", ["FALSE", "False", " false", "0"])
def test_a_spreadsheet_may_have_saved_the_file(tmp_path, word):
    path = tmp_path / "battles.csv"
    path.write_text(f"model_a,model_b,winner,blind\nx,y,model_a,TRUE\nx,y,model_b,{word}\n")
    source = open_battles(str(path))
    assert len(list(source.battles())) == 1
    assert count_table([source]).n_battles == 1


def test_files_without_the_column_are_read_whole(tmp_path):
    path = tmp_path / "battles.jsonl"
    path.write_text('{"model_a": "x", "model_b": "y", "winner": "tie"}\n' * 3)
    source = open_battles(str(path))
    assert len(list(source.battles())) == 3
    assert source.notes == ()


REASONS = {
    "unseen": "a response had not been shown to the voter (unrated is unseen)",
    "early": "the vote came too soon after both responses were shown (unrated is early)",
    "waiting": "the voter was new, and the vote did not count yet (unrated is waiting)",
}


@pytest.mark.parametrize("container", ["jsonl", "csv", "parquet"])
def test_votes_that_are_not_rated_are_left_out_by_reason(tmp_path, container):
    marks = [None, "unseen", None, "early", "waiting", "waiting"]
    extras = [
        {"blind": k != 2, "unrated": "not-blind" if k == 2 else mark or "no"} for k, mark in enumerate(marks)
    ]
    source = open_battles(exported(tmp_path, container, extras))
    told = {(KNEW[0], 1), (REASONS["unseen"], 1), (REASONS["early"], 1), (REASONS["waiting"], 2)}
    assert [battle.question_id for battle in source.battles()] == ["p0"]
    assert set(source.notes) == told
    assert count_table([source]).n_battles == 1
    assert set(source.notes) == told


def test_another_meaning_of_the_column_leaves_nothing_out(tmp_path):
    path = tmp_path / "battles.csv"
    path.write_text("model_a,model_b,winner,unrated\nx,y,model_a,yes\nx,y,model_b,\n")
    assert count_table([open_battles(str(path))]).n_battles == 2
