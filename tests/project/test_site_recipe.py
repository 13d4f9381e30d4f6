"""The documentation's deployment: its actions are pinned, and the board beside it is made and verified here."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from support.command import run

ROOT = Path(__file__).parents[2]


def test_the_workflow_pins_its_actions_and_runs_the_recipe():
    text = (ROOT / ".github/workflows/docs.yml").read_text(encoding="utf-8")
    used = re.findall(r"uses: (.*)", text)
    assert len(used) == 4
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v[0-9.]+", one) for one in used)
    jobs = yaml.safe_load(text)["jobs"]
    assert [one["run"] for one in jobs["build"]["steps"] if "just" in one.get("run", "")] == [
        'uv run --locked just site --url "$BOARD"'
    ]
    assert jobs["deploy"]["needs"] == "build"
    assert "id-token" not in jobs["build"]["permissions"]


@pytest.mark.slow
def test_the_recipe_publishes_a_board_that_verifies(tmp_path):
    site = tmp_path / "site/board"
    command = [
        "just",
        "--set",
        "board_battles",
        "300",
        "board",
        site,
        "--url",
        "https://example.org/docs/board",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "demo: Verified: every number recomputed" in done.stdout
    assert run("verify", site / "demo").code == 0
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "curl -LO https://example.org/docs/board/demo.zip" in page
    assert json.loads((site / "site.json").read_text())["runs"][0]["title"] == "Demo arena"
    assert str(tmp_path) not in (site / "demo/manifest.json").read_text()
