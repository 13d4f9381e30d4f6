"""The report's sections and the closing summary: honest numbers, harmless names."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from support.judged_runs import anchored_run, made_run, written
from tiltyard.core.ratings import Finding
from tiltyard.report.judging_sections import SHARES, choices_section, judges_section, questions_section
from tiltyard.report.tournament_tables import tournament_summary
from tiltyard.runs.tournament_files import read_run_documents, write_judged_run

HOSTILE = ("<script>alert(1)</script>", "b\x1b[31m", "[red]c[/red]")


class Balance(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.sections = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "input"):
            self.open.append(tag)
        if tag == "section":
            self.sections.append(dict(attrs)["id"])

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def shown(groups, diagnostics, costs, width=100):
    console = Console(width=width, highlight=False, markup=False, emoji=False, file=None)
    with console.capture() as capture:
        console.print(tournament_summary(groups, diagnostics, costs))
    return capture.get()


def documents(original):
    return {
        name: json.loads((original / name).read_text())
        for name in ("diagnostics.json", "dimension_ratings.json")
    }


def test_the_page_is_whole_and_has_each_section_once(original):
    parser = Balance()
    parser.feed((original / "report.html").read_text())
    assert parser.open == []
    boards = ["board-0", "board-1", "board-2"]
    assert parser.sections == ["elo", *boards, "said", "choices", "judges", "questions", "costs"]


def test_no_name_can_leave_its_place(tmp_path):
    out = written(tmp_path, made_run(prompts=3, models=HOSTILE, judges=("<img src=x>",), arena="</title><b>"))
    page = (out / "report.html").read_text()
    assert page.count("<script") == 2
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\x1b" not in page
    parser = Balance()
    parser.feed(page)
    assert parser.open == []


def test_every_share_of_a_judge_is_shown_and_what_was_left_out(original):
    diagnostics = documents(original)["diagnostics.json"]
    page = judges_section(diagnostics)
    whole = [one for one in diagnostics["judges"] if one["dimension"] is None]
    known = {name for one in whole for name in SHARES if one[name] is not None}
    assert known >= {"flips", "first_slot", "self_agreement", "identical"}
    for name in known:
        assert SHARES[name][0] in page
    for finding in diagnostics["findings"]:
        assert finding["name"] in page
    assert "Agreement with people" in page
    fields = {
        name for one in whole for name, value in one.items() if isinstance(value, dict) and "low" in value
    }
    assert fields <= set(SHARES)
    page = questions_section(documents(original)["diagnostics.json"])
    assert "9 pairs were dropped" in page
    assert "provider error" in page
    assert "incomplete" in page.lower()


def test_a_judge_without_verdicts_has_nothing_said_of_it(original):
    diagnostics = documents(original)["diagnostics.json"]
    for one in diagnostics["judges"]:
        one.update(dict.fromkeys(SHARES))
    assert "no verdicts" in judges_section(diagnostics)
    diagnostics.update(judges=[], agreement=[], matches={}, findings=[])
    assert "By dimension" not in judges_section(diagnostics)
    assert "<section" in questions_section(diagnostics)


def test_choices_show_a_dash_where_there_is_no_rating_and_few_of_many(original):
    choice = {
        "name": "as rated",
        "ratings": [{"model": f"m{k}", "rating": None, "ci_low": None} for k in range(90)],
    }
    page = choices_section({"factuality": [choice]})
    assert "60 of 90 models" in page
    assert choices_section({}) == ""
    choice = {
        "name": "as rated",
        "ratings": [{"model": "m", "rating": 1500.4, "ci_low": None, "ci_high": None}],
    }
    assert ">1500<" in choices_section({"x": [choice]})


@pytest.fixture(scope="module")
def summary_parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("summary")
    groups = write_judged_run(folder / "run", anchored_run(folder))
    return groups, *read_run_documents(folder / "run")


def test_the_summary_has_ratings_with_intervals_counts_tokens_and_dollars(summary_parts):
    groups, diagnostics, costs = summary_parts
    text = shown(*summary_parts)
    row = groups[0].board.rows[0]
    assert f"{row.rating:.0f} [{row.low:.0f}, {row.high:.0f}]" in text
    for dimension in ("factuality", "calibration", "overall"):
        assert dimension in text
    matches = diagnostics["matches"]["factuality"]
    assert re.search(rf"factuality +{matches['matches']} +{matches['settled']} +{matches['decisive']}", text)
    assert "9 pairs dropped" in text
    assert re.search(r"Paid: \$0\.\d+ known, .*\$0\.\d+; .*: \d+ calls, .*\$0\.0", text)
    mine = [one for one in costs["by_judge_and_dimension"] if one["dimension"] == "factuality"]
    assert len(mine) == 2
    assert f"{sum(one['input_tokens'] for one in mine):,}" in text
    assert "written" not in text.partition("Calls and tokens")[2].partition("Paid")[0]
    assert "prompt-cache-idle" in text


def test_the_summary_shows_the_prompt_cache_where_it_was_touched_and_says_unknown(summary_parts):
    groups, diagnostics, costs = summary_parts
    places = [one | {"cache_read_tokens": 1234567, "usd": None} for one in costs["by_judge_and_dimension"]]
    places += [places[0] | {"dimension": None, "output_tokens": None}]
    text = shown(groups, diagnostics, costs | {"by_judge_and_dimension": places})
    assert "2,469,134" in text
    assert re.search(r"\(none\) .* – .* unknown", text)


def test_the_summary_says_what_is_still_in_flight(summary_parts):
    groups, diagnostics, costs = summary_parts
    assert "still in flight" not in shown(*summary_parts)
    actual = costs["actual"] | {"in_flight": {"calls": 1200, "reserved_usd": "2.5"}}
    text = shown(groups, diagnostics, costs | {"actual": actual}, width=200)
    assert re.search(r"in flight: 1,200 calls, .*\$2\.50", text)


def test_a_finding_of_several_dimensions_is_printed_once(summary_parts):
    groups, diagnostics, costs = summary_parts
    same, own = Finding("few", {}, "Few battles.", "Collect more."), Finding("odd", {}, "Odd.", "Look.")
    found = [(same, own), (same,), ()]
    some = [
        replace(rated, board=replace(rated.board, findings=mine))
        for rated, mine in zip(groups, found, strict=True)
    ]
    text = shown(some, diagnostics, costs)
    assert text.count("few: Few battles.") == text.count("odd: Odd.") == 1
    first, second = (rated.name for rated in groups[:2])
    assert f"\n{first}, {second}:\nfew: " in text
    assert f"\n{first}:\nodd: " in text


def test_the_summary_says_when_nothing_could_be_rated(summary_parts):
    _, diagnostics, costs = summary_parts
    quiet = costs | {"prompt_cache": {"did_nothing": False}}
    quiet["actual"] = costs["actual"] | {
        "paid_and_lost": {"calls": 0, "usd": "0"},
        "at_most_usd": None,
        "known_usd": "0",
    }
    text = shown([], diagnostics | {"findings": [], "dropped_pairs": 0}, quiet)
    assert "No match" in text
    assert "Paid: unknown." in text
    assert "prompt-cache-idle" not in text


def test_names_cannot_steer_the_terminal(tmp_path):
    groups = write_judged_run(tmp_path / "run", made_run(prompts=3, models=HOSTILE, n_bootstraps=0))
    text = shown(groups, *read_run_documents(tmp_path / "run"))
    assert "\x1b" not in text
    assert "[red]c[/red]" in text
