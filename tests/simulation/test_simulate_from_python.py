"""`tiltyard.simulate`: the words of the command, in Python."""

import pytest

import tiltyard
from support.command import run
from tiltyard.errors import BadOption

SMALL = {"models": 4, "prompts": 6, "votes": 750, "seeds": 2, "votes_per_day": 100, "processes": 0}


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
    assert found.forecasts[0].worlds == 2
    assert found.settings.world.models == found.to_dict()["settings"]["world"]["models"] == 4


def test_other_worlds_and_matchmakers():
    found = tiltyard.simulate(**{**SMALL, "seeds": 1}, compare=True, even_top=True, rater="literal", ties=0.3)
    assert {one.matchmaker for one in found.forecasts} >= {"policy", "uniform", "nearest"}
    assert found.settings.world.close_top is False
    assert (found.settings.world.ties, found.settings.volatility) == (0.3, 0.06)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 4}, "simulate has no option 'model'; did you mean models?"),
        ({"rigged_rank": 3}, "rigged_rank= has no effect without riggers=; give both, or neither"),
        (
            {"matchmaker": "v1", "fairness": "scoped"},
            "fairness= has no effect with matchmaker='v1'; remove one",
        ),
        ({"matchmaker": "best"}, "matchmaker is 'best'; expected one of policy"),
        ({"rater": "elo"}, "rater is 'elo'; expected one of settling, literal"),
        ({"votes": 10}, "votes= is 10; no board can be official before 750"),
        ({"models": 1000, "prompts": 100_000}, "too many to simulate"),
        ({"ties": 2.0}, "ties is 2.0; expected a share between 0 and 1"),
        ({"seeds": 0}, "no seeds; a forecast needs at least one world"),
    ],
    ids=["unknown", "alone", "fairness", "matchmaker", "rater", "votes", "size", "share", "seeds"],
)
def test_what_makes_no_sense_is_refused_in_python(options, message):
    with pytest.raises(BadOption) as raised:
        tiltyard.simulate(**options)
    assert message in str(raised.value)
