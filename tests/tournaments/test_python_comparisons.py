"""`tiltyard.ab` from Python: answers as rows, judges as settings, and options that are not there."""

from __future__ import annotations

import pytest

import tiltyard
from support.command import run
from tiltyard.errors import BadOption


def rows(model, *scores, response="Reply"):
    return [
        {
            "prompt_id": f"q{k}",
            "prompt": f"Question {k}?",
            "model": model,
            "response": response,
            "scores": {"acc": score},
        }
        for k, score in enumerate(scores)
    ]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    return tmp_path


def test_rows_are_answers():
    found = tiltyard.ab(rows("old", *[0.0, 1.0] * 20), rows("new", *[1.0] * 40))
    assert (found.decision, found.compared) == ("better", 40)


def test_what_is_no_answer_is_named():
    with pytest.raises(BadOption, match="answer 2"):
        tiltyard.ab([rows("old", 1.0)[0], 7], rows("new", 1.0))


def test_a_judge_may_be_its_settings_and_its_folder_is_verified(home, billed):
    judge = {"model": "likes-fine", "base_url": billed.server.openai, "max_tokens": 512}
    prices = {"likes-fine": {"input": 3, "output": 15}}
    sides = rows("old", *[0.0] * 40), rows("new", *[0.0] * 40, response="Reply fine")
    found = tiltyard.ab(*sides, judge=judge, prices=prices, budget_usd=5.0)
    assert found.decision == "better"
    assert found.details["spent"].startswith("$")
    (folder,) = (home / "runs").iterdir()
    assert "max_tokens: 512" in (folder / "tournament.yaml").read_text()
    # The folder that `ab` names will do: the run is inside.
    assert run("verify", folder).code == 0
    assert "Reply fine" in run("read", folder).out
    assert tiltyard.verify(folder).passed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bugdet_usd": 1.0}, "ab has no option 'bugdet_usd'; did you mean budget_usd?"),
        ({"judgee": "x"}, "ab has no option 'judgee'; it has"),
    ],
)
def test_a_mistyped_option_is_refused(options, said):
    with pytest.raises(BadOption, match=said):
        tiltyard.ab(rows("old", 1.0), rows("new", 1.0), **options)
