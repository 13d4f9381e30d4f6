"""`tiltyard.simulate`: the words of the command, in Python."""

import pytest

import tiltyard
from support.command import run
from tiltyard.errors import BadOption

SMALL = {"models": 4, "prompts": 6, "votes": 750, "seeds": 1, "votes_per_day": 100, "processes": 0}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))


def test_it_says_what_the_command_says():
    found = tiltyard.simulate(**SMALL)
    flags = [text for name, value in SMALL.items() for text in (f"--{name.replace('_', '-')}", value)]
    printed = " ".join(run("simulate", *flags).out.split())
    title, *_ = found.to_markdown().splitlines()
    assert title.lstrip("# ") in printed
    assert repr(found).startswith("<Simulation: ")
    assert repr(found).removeprefix("<Simulation: ").removesuffix(">").split(";")[0] in printed
    assert found._repr_markdown_() == found.to_markdown()
    assert found.forecasts[0].worlds == 1
    assert found.settings.world.models == found.to_dict()["settings"]["world"]["models"] == 4


def test_other_worlds_and_matchmakers():
    found = tiltyard.simulate(**SMALL, compare=True, even_top=True, rater="literal", ties=0.3)
    assert {one.matchmaker for one in found.forecasts} >= {"policy", "uniform", "nearest"}
    assert found.settings.world.close_top is False
    assert (found.settings.world.ties, found.settings.volatility) == (0.3, 0.06)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 4}, "'model'"),
        ({"rigged_rank": 3}, "rigged_rank="),
        ({"matchmaker": "v1", "fairness": "scoped"}, "fairness="),
        ({"matchmaker": "best"}, "'best'"),
        ({"rater": "elo"}, "'elo'"),
        ({"votes": 10}, "votes="),
        ({"models": 1000, "prompts": 100_000}, "too many"),
        ({"ties": 2.0}, "ties is 2.0"),
        ({"seeds": 0}, "no seeds"),
    ],
    ids=["unknown", "alone", "fairness", "matchmaker", "rater", "votes", "size", "share", "seeds"],
)
def test_what_makes_no_sense_is_refused_in_python(options, message):
    with pytest.raises(BadOption) as raised:
        tiltyard.simulate(**options)
    assert message in str(raised.value)
