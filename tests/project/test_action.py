"""The GitHub Action: its steps run as they would there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ACTION = Path(__file__).parents[2] / "action.yml"


def scores(path, value):
    rows = (
        {"prompt_id": f"q{k}", "prompt": "?", "model": path.stem, "response": "r"}
        | {"scores": {"s": value(k), "t": float(k % 3)}}
        for k in range(40)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.slow(but_every=7)
@pytest.mark.parametrize(
    ("swap", "more", "code", "decision"),
    [
        (False, {}, 0, "better"),
        (True, {}, 1, "worse"),
        (None, {}, 0, "undecided"),
        (None, {"undecided": "fail"}, 5, "undecided"),
        (False, {"guard": "s=0.1\nt=9", "undecided": "fail"}, 5, "undecided"),
        (True, {"score": "t", "guard": "s\n"}, 1, "guard failed"),
        (False, {"b": "b.jsonl\na.jsonl\n", "undecided": "fail"}, 5, "undecided"),
    ],
)
def test_the_step_says_what_was_decided(tmp_path, swap, more, code, decision):
    scores(tmp_path / "a.jsonl", lambda k: float(k % 2))
    scores(tmp_path / "b.jsonl", lambda k: float(k % 2 if swap is None and k else 1))
    names = ("b.jsonl", "a.jsonl") if swap else ("a.jsonl", "b.jsonl")
    document = yaml.safe_load(ACTION.read_text())
    step = document["runs"]["steps"][1]
    given = {name: one.get("default", "") for name, one in document["inputs"].items()}
    given |= {"a": names[0], "b": names[1], "score": "s"} | more
    told = {
        name: given[value.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, value in step["env"].items()
    }
    environment = os.environ | told | {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert f"decision={decision}\n" in (tmp_path / "output").read_text()
    assert (tmp_path / "summary").read_text() == done.stdout
