"""The commands of a tournament as a person meets them: options, errors, odd names, progress."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import pytest

from support.arranged import Arranged, arrange
from support.command import Watched, run
from support.servers.paid_llm import paid_llm
from tiltyard.cli.progress import JudgingProgress, QuietProgress
from tiltyard.judges.judging_run import RunProgress

pytestmark = pytest.mark.usefixtures("without_charts")

NOWHERE = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1"}
#: What could steer a terminal or a page.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def recorded(folder):
    """The sample tournament: no network, no key."""
    assert run("init", folder).code == 0
    return Arranged(folder)


def test_a_first_tournament_takes_two_commands(tmp_path):
    arranged = recorded(tmp_path)
    ran = arranged.done("run", "tournament.yaml")
    [out] = (tmp_path / "runs").iterdir()
    assert f"Written to runs/{out.name}: tiltyard verify runs/{out.name}" in ran.out
    assert "calls to make" in ran.err
    arranged.done("verify", f"runs/{out.name}")


def test_the_configuration_is_named_once(tmp_path):
    arranged = recorded(tmp_path)
    arranged.done("plan", "--config", "tournament.yaml")
    for command in ("run", "plan", "generate"):
        for arguments in ((), ("tournament.yaml", "--config", "tournament.yaml")):
            ran = arranged.call(command, *arguments)
            assert ran.code == 2
            assert "configuration exactly once" in ran.err


@pytest.mark.slow(but_every=4)
@pytest.mark.parametrize("command", ["run", "plan", "generate"])
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"entrants": [{"entrant_id": "only"}]}, "line 1, entrants: expected at least 2, found a list of 1"),
        ({"rubrics": {"nonsense": {}}}, "rubrics.nonsense: no built-in rubric has this name"),
        ({"jugde": {}}, "jugde: unknown field; did you mean judge?"),
        ({"judge": {"concurrency": "many"}}, "judge.concurrency: expected a whole number above 0"),
        ({"budget_usd": -1}, "budget_usd: expected dollars"),
    ],
    ids=["entrants", "rubric", "section", "field", "budget"],
)
def test_what_is_wrong_in_the_file_is_named_with_line_and_field(tmp_path, command, change, problem):
    arranged = arrange(tmp_path, judge=NOWHERE).change(**change)
    ran = arranged.call(command, "tournament.yaml")
    assert ran.code == 2
    if command == "generate" and "rubrics" in change:
        return
    assert re.search(r"tournament\.yaml, line \d+", ran.err), ran.err
    assert problem in ran.err


@pytest.mark.parametrize("options", [("--n-perms", 0), ("--limit-pairs", 0), ("--budget-usd", -1)])
def test_numbers_that_make_no_sense_are_refused(tmp_path, options):
    ran = arrange(tmp_path, judge=NOWHERE).call("run", "tournament.yaml", *options)
    assert ran.code == 2
    assert options[0] in ran.err


HOSTILE = [
    "[bold red]markup[/]",
    "<script>alert(1)</script>",
    "x" * 200,
    "ünï—código 模型 🦊",
    "\u202eevil",
    "'; DROP TABLE judge_replies; --",
    "{task.description} %s {0}",
    "]]> --> </style>",
]


def test_hostile_names_are_harmless_in_terminal_and_page(tmp_path):
    with paid_llm() as server:
        judge = {"provider": "openai", "base_url": server.openai}
        modes = {
            "pilot": {"judges": [{"model": "judge-1", "name": "[red]<b>judge</b>\u202e"}], "prompts": "all"}
        }
        arranged = arrange(tmp_path, models=HOSTILE, prompts=2, dimensions=1, judge=judge, modes=modes)
        bank = (tmp_path / "prompts.jsonl").read_text()
        answers = (tmp_path / "answers.jsonl").read_text()
        odd = r"p\u001b[31m\n<img src=x onerror=alert(1)>"
        (tmp_path / "prompts.jsonl").write_text(bank.replace("p0001", odd))
        (tmp_path / "answers.jsonl").write_text(answers.replace("p0001", odd))
        planned = arranged.done("plan", "tournament.yaml", "--questions", "q.jsonl")
        ran = arranged.done("run", "tournament.yaml", "--output-dir", "out")
        assert server.settled_tally()["paid_calls"] == 8 * 7 // 2 * 2 * 2
    for text in (planned.out, planned.err, ran.out, ran.err):
        assert not CONTROL.search(text), CONTROL.search(text)
    assert "[bold red]markup[/]" in ran.out
    page = (tmp_path / "out" / "report.html").read_text()
    for bad in ("<script>alert", "<img src=x", "\x1b", "<b>judge"):
        assert bad not in page
    arranged.done("verify", "out")


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("name", ["two\nlines", "esc\x1b[2Jape", "", " padded ", "y" * 201, "bell\x07"])
def test_names_that_cannot_be_seen_are_refused_without_being_printed(tmp_path, name):
    arranged = arrange(tmp_path, judge=NOWHERE).change(
        entrants=[{"entrant_id": name}, {"entrant_id": "other"}]
    )
    ran = arranged.call("plan", "tournament.yaml")
    assert ran.code == 2
    assert "entrants.0.entrant_id: expected" in ran.err
    assert not CONTROL.search(ran.err)


@pytest.mark.slow(but_every=2)
@pytest.mark.parametrize("name", ["", "  ", "esc\x1b[2Jape", "two\nlines"])
def test_a_judge_that_cannot_be_named_is_refused(tmp_path, name):
    ran = arrange(tmp_path, judge=NOWHERE).call("plan", "tournament.yaml", "--judge-model", name)
    assert ran.code == 2
    assert "a model name" in ran.err
    assert not CONTROL.search(ran.err)


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("name", ["../up", "a b", "[x]", "", "\x1b[31m", "é"])
def test_dimensions_and_modes_are_parts_of_file_names(tmp_path, name):
    for section in ({"rubrics": {name: {}}}, {"modes": {name: {}}}):
        arranged = arrange(tmp_path, judge=NOWHERE).change(**section)
        ran = arranged.call("plan", "tournament.yaml")
        assert ran.code == 2
        assert "of letters, digits" in ran.err
        assert not CONTROL.search(ran.err)


def test_what_a_provider_says_is_printed_harmlessly(tmp_path):
    with paid_llm(key="right") as server:
        judge = {"provider": "openai", "base_url": server.openai}
        modes = {"pilot": {"judges": [{"model": "a[red]\u202eb"}], "prompts": "all"}}
        arranged = arrange(tmp_path, judge=judge, modes=modes)
        ran = arranged.call("run", "tournament.yaml")
    assert ran.code == 3
    assert not CONTROL.search(ran.out + ran.err)


@pytest.mark.slow
def test_a_bar_on_a_terminal_and_lines_in_a_log(tmp_path, monkeypatch):
    arranged = recorded(tmp_path)
    watched = arranged.call("run", "tournament.yaml", watched=True)
    assert watched.code == 0, watched.err
    assert "\x1b[" in watched.err
    assert "calls" in watched.err
    heard = RunProgress(Counter(ok=3, refused=1, lost=2), 5 * 10**11)
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    ran = []
    monkeypatch.setattr("typer.echo", lambda text, **_: ran.append(text))
    with JudgingProgress() as watcher:
        watcher.begun(Path("out"), 10, 10**12, 3 * 10**12, resumed=False)
        for _ in range(4):
            watcher.tick(heard)
    assert ran[0] == "Writing to out: 10 calls to make, $1.00 of $3.00 spent."
    # One line in ten seconds, however often it ticks.
    assert len(ran) == 3
    assert ran[1].startswith("4 of 10 calls (ok 3, refused 1, lost 2; ")
    assert "$1.50 of $3.00), about " in ran[1]


def test_nothing_heard_yet_and_prices_nobody_knows(monkeypatch):
    ran = []
    monkeypatch.setattr("typer.echo", lambda text, **_: ran.append(text))
    monkeypatch.setattr("tiltyard.cli.progress._LOG_LINE_SECONDS", 0.0)
    with JudgingProgress() as watcher:
        watcher.begun(Path("out"), 5, 0, None, resumed=True)
        watcher.tick(RunProgress())
        watcher.tick(RunProgress(Counter(ok=5), None))
    assert ran == [
        "Resuming out: 5 calls to make.",
        "0 of 5 calls (none yet; $0)",
        "5 of 5 calls (ok 5; unknown), about 0 s left",
    ]


def test_a_second_stretch_of_work_has_its_own_bar(monkeypatch):
    """Placing generates first and judges then: the first bar must not stay."""
    screen = Watched()
    monkeypatch.setattr("sys.stderr", screen)
    with JudgingProgress() as watcher:
        watcher.begun(Path("one"), 5, 0, None, resumed=False)
        first = watcher._bar
        watcher.tick(RunProgress(Counter(ok=5), 0))
        watcher.begun(Path("two"), 7, 0, None, resumed=False)
        assert watcher._bar is not first
        assert first.finished or not first.live.is_started
        assert watcher.rating() is None
        last = watcher._bar
    assert not last.live.is_started


def test_a_line_stands_above_the_bar_and_not_in_it(monkeypatch):
    screen = Watched()
    monkeypatch.setattr("sys.stderr", screen)
    with QuietProgress() as watcher:
        watcher.begun(Path("one"), 5, 0, None, resumed=False)
        watcher.tick(RunProgress(Counter(ok=5), 0))
        watcher.rating()
        watcher.tell("30 prompts: +10 points (−80 to +100)")
        watcher.begun(Path("one"), 7, 0, None, resumed=True)
        watcher.tell("40 prompts: +20 points (−60 to +100)")
    drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    lines = [line.rpartition("\r")[2] for line in drawn.splitlines()]
    assert "30 prompts: +10 points (−80 to +100)" in lines
    assert "40 prompts: +20 points (−60 to +100)" in lines
    assert drawn.count("calls to make") == 1


@pytest.mark.parametrize(
    ("seconds", "text"), [(3, "3 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (7200, "2.0 h")]
)
def test_durations_for_people(seconds, text):
    from tiltyard.cli.progress import _duration

    assert _duration(seconds) == text
