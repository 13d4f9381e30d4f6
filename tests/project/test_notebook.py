"""The tutorial's notebook, run in a real Jupyter kernel."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "tutorial" / "first-notebook.ipynb"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The outputs of each code cell, by its last line, after a run of all cells."""
    folder = tmp_path_factory.mktemp("notebook")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    subprocess.run(
        [sys.executable, ROOT / "tests/support/notebook_runs.py", NOTEBOOK, folder / "ran.ipynb"],
        cwd=folder,
        env=os.environ | {"PATH": path},
        check=True,
    )
    cells = json.loads((folder / "ran.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    return {cell["source"][-1]: cell["outputs"] for cell in code}


def data(outputs):
    """What the only output of a cell is in each type, as one text."""
    assert [output["output_type"] for output in outputs] == ["execute_result"], outputs
    found = outputs[0]["data"]
    return {kind: value if isinstance(value, dict) else "".join(value) for kind, value in found.items()}


@pytest.mark.slow
def test_a_board_is_a_table_in_a_notebook(ran):
    shown = data(ran["board"])
    assert shown["text/plain"] == "<RatedBoard bradley-terry, 3,000 battles, 8 models, highest 'argent-70b'>"
    assert "<table" in shown["text/html"]
    assert "21 of 28 pairs of models" in shown["text/html"]
    assert "text/html" in data(ran['board.groups["code"]'])


@pytest.mark.slow
def test_tables_and_frames(ran):
    printed = ran["print(board.to_latex())"]
    assert printed[0]["output_type"] == "stream"
    assert "\\toprule" in "".join(printed[0]["text"])
    frame = data(ran['board.to_pandas()[["rank", "model", "rating", "ci_low", "ci_high"]].round(1)'])
    assert "argent-70b" in frame["text/plain"]


@pytest.mark.slow
def test_every_frame_gives_the_same_board(ran):
    last = next(outputs for line, outputs in ran.items() if line.startswith("[tiltyard.rate(form)"))
    assert data(last)["text/plain"] == "[True, True, True, True, True]"


def test_the_page_is_the_notebook(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from notebook_page import PAGE, page_text

    assert PAGE.read_text(encoding="utf-8") == page_text(NOTEBOOK)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells)
