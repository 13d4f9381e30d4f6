"""What other programs may rely on."""

import inspect
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import tiltyard
from tiltyard.files import write_battles
from tiltyard.simulation.demo.demo_roster import demo_battles

NAMES = [
    "ABReport",
    "Answer",
    "AsyncClient",
    "Battle",
    "Board",
    "BoardTable",
    "BradleyTerry",
    "CheckedLog",
    "Client",
    "Elo",
    "Finding",
    "Glicko2",
    "Glicko2State",
    "Label",
    "OnlineBradleyTerry",
    "OnlineState",
    "Outcome",
    "RatedBoard",
    "Ratings",
    "Row",
    "Table",
    "TiltyardError",
    "TournamentResult",
    "Verification",
    "__version__",
    "ab",
    "ab_async",
    "battles_from_scores",
    "check",
    "check_fit",
    "compare_models",
    "make_board",
    "open_answers",
    "open_battles",
    "predict_ahead",
    "rank_models",
    "rate",
    "read_answers",
    "read_battles",
    "read_table",
    "simulate",
    "tournament",
    "tournament_async",
    "validity_report",
    "verify",
    "votes_to_flip",
    "write_answers",
    "write_battles",
]


@pytest.fixture
def file(tmp_path):
    write_battles(tmp_path / "battles.jsonl", demo_battles(200))
    return tmp_path / "battles.jsonl"


def python(code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_names_are_these():
    assert tiltyard.__all__ == NAMES
    assert dir(tiltyard) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there(name):
    thing = getattr(tiltyard, name)
    assert name == "__version__" or thing.__name__.removeprefix("tiltyard.") == name


def test_no_other_name_is():
    with pytest.raises(AttributeError, match="module 'tiltyard' has no attribute 'Arena'"):
        tiltyard.Arena  # noqa: B018


def test_help_shows_the_options():
    stated = inspect.signature(tiltyard.rate).parameters
    assert stated["level"].default == 0.95
    assert stated["drop_duplicates"].default is False
    assert set(inspect.signature(tiltyard.check).parameters) <= {"data", *stated}


def test_importing_costs_nothing():
    heavy = {"numpy", "scipy", "pyarrow", "pydantic", "typer", "rich", "altair", "numba"}
    found = python("import sys, tiltyard; print(*sys.modules)").split()
    assert heavy.isdisjoint(found)
    assert {name for name in found if name.startswith("tiltyard")} == {"tiltyard", "tiltyard._version"}


def test_the_command_line_waits_with_what_is_heavy():
    heavy = {
        "numpy",
        "scipy",
        "pyarrow",
        "pydantic",
        "altair",
        "numba",
        "tiltyard.core.ratings",
        "tiltyard.files",
    }
    assert heavy.isdisjoint(python("import sys, tiltyard.cli; print(*sys.modules)").split())


def test_rating_files_loads_nothing_that_it_does_not_use(tmp_path):
    paths = [str(tmp_path / name) for name in ("battles.csv", "battles.parquet")]
    for path in paths:
        write_battles(path, demo_battles(60))
    rated = f"import sys, tiltyard; tiltyard.rate({paths!r}); print(*sys.modules)"
    unused = {"pandas", "asyncio", "typer", "tiltyard.core.judging"}
    assert unused.isdisjoint(python(rated).split())


def test_frames_are_made_from_plain_columns(file):
    import pandas as pd
    import polars as pl

    ratings = tiltyard.BradleyTerry()(tiltyard.read_table(file))
    columns = ratings.to_columns()
    frames = pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns).to_pandas()
    assert all(list(frame["model"]) == columns["model"] for frame in frames)
    assert all(list(frame["rating"]) == columns["rating"] for frame in frames)
    assert columns["rating"] == sorted(columns["rating"], reverse=True)


def test_nobody_here_needs_a_frame(file):
    code = """
import sys

class Absent:
    @staticmethod
    def find_spec(name, *_):
        if name in ("pandas", "polars"):
            raise ImportError(name)

sys.meta_path.insert(0, Absent)
import tiltyard
table = tiltyard.read_table(sys.argv[1], style=["length"])
for method in (tiltyard.BradleyTerry(style=True), tiltyard.Glicko2()):
    print(method(table).to_columns()["model"][0])
"""
    assert len(python(code, file).split()) == 2


def test_types_travel_with_the_package():
    assert (Path(tiltyard.__file__).parent / "py.typed").is_file()


def test_from_files_to_a_board(file):
    table = tiltyard.read_table(file, file)
    ratings = tiltyard.BradleyTerry()(table)
    board = tiltyard.make_board(ratings, tiltyard.rank_models(ratings))
    assert table.n_battles == board.n_battles == 400
    assert board.rows[0].model == ratings.to_columns()["model"][0]
    assert tiltyard.compare_models(table, "argent-70b", "heron-1b").difference > 0


def test_every_error_is_a_tiltyard_error(file):
    from tiltyard import errors

    for name in errors.__all__:
        assert issubclass(getattr(errors, name), tiltyard.TiltyardError)
    with pytest.raises(tiltyard.TiltyardError, match="no such file"):
        tiltyard.read_table(file.with_name("nowhere"))
