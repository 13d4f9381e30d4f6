"""A forecast shown in a terminal, as Markdown and as a page."""

import io
import json
import re
from dataclasses import replace

from rich.console import Console

from support.arena_results import SETTINGS, moment, official, result
from tiltyard.core.policy.state.policy import Policy
from tiltyard.report import board_charts
from tiltyard.report.forecast_report import (
    LANES,
    OFFICIAL,
    simulation_charts,
    simulation_markdown,
    simulation_page,
    simulation_tables,
)
from tiltyard.simulation.arena_forecast import Simulation, summarise_worlds
from tiltyard.simulation.worlds import WorldSettings

TEN = [official(1500 + 250 * (k % 3), last="pairs" if k == 9 else "coverage") for k in range(10)]
NEVER = [result(moment(250), moment(3000, coverage=0.5 + 0.01 * k)) for k in range(10)]


def document(results, settings=SETTINGS, *, beside=(), votes_per_day=500):
    """As it is read back from JSON."""
    forecasts = (summarise_worlds(results, settings), *(summarise_worlds(results, one) for one in beside))
    found = Simulation("0", votes_per_day, 0, settings, forecasts)
    return json.loads(json.dumps(found.to_dict(), allow_nan=False))


def terminal(found, width=80):
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False).print(simulation_tables(found))
    return out.getvalue()


def unfolded(text):
    return re.sub(r"\s+", " ", text)


def test_the_first_sentence_answers_the_operator():
    shown = unfolded(terminal(document(TEN)))
    assert re.search(r"^.*?worlds Settled after 2,000 votes \(day 4\): the order of 48 of 190 pairs", shown)
    assert re.search(r"\(official\) .*1,750 votes \(80% of worlds: 1,500–2,000\): day 4", shown)
    assert "coverage in 9 of 10" in shown
    assert re.search("90% of the pairs .*Bradley–Terry 95%", shown)


def test_equal_models_settle_nothing_however_official_the_board_is():
    equal = [official(1500)] * 10
    equal = [replace(one, moments=tuple(replace(at, settled=0.0) for at in one.moments)) for one in equal]
    shown = unfolded(terminal(document(equal)))
    assert re.search(r"^.*?worlds Nothing settles.* \(official\) after about 1,500 votes", shown)


def test_an_arena_that_is_never_official_says_what_lacks():
    shown = unfolded(terminal(document(NEVER)))
    assert re.search(r"3,000 votes \(day 6\) in any world", shown)
    assert "coverage at 0.55, bar ≥ 0.9" in shown
    assert re.search(r"official >3,000 ", shown)
    assert "votes a day" not in shown.partition("Not official")[2]


def test_most_worlds_and_some_worlds_are_told_apart():
    most = unfolded(terminal(document([*TEN[:7], *NEVER[:3]])))
    assert "1,500–>3,000): day 4" in most
    assert "in 3 of 10 worlds" in most
    assert re.search(r" 500 +4 +3 +later", most)
    few = unfolded(terminal(document([*TEN[:3], *NEVER[:7]])))
    assert "in 7 of 10 worlds" in few
    only_one = unfolded(terminal(document([*TEN[:1], *NEVER[:8]])))
    assert "in 8 of 9 worlds" in only_one


def test_few_worlds_show_no_range_and_an_unmeasured_rule_a_dash():
    one = unfolded(terminal(document(TEN[:1])))
    assert "one simulated world" in one
    assert "80% of worlds:" not in one
    assert "in 1 of 1 world." in one
    assert "few worlds" in unfolded(terminal(document(TEN[:3])))
    found = document([result(moment(250), moment(500, coverage=None)), result(moment(500, coverage=None))])
    section = terminal(found).split("Day by day")[1]
    assert re.search(r"1 +500 +25% +60 +8 +– +80% +0%", section)


def test_days_follow_from_the_votes_and_the_pace():
    shown = terminal(document(TEN, votes_per_day=300))
    section = shown.split("Day by day")[1].split("Medians")[0]
    assert [line.split()[:2] for line in section.strip().splitlines()[1:]] == [
        ["1", "250"],
        ["2", "500"],
        ["3", "750"],
        ["5", "1,500"],
        ["7", "2,000"],
    ]
    section = terminal(document(TEN)).split("With more or fewer votes a day")[1]
    rows = [line.split() for line in section.strip().splitlines()[1:5]]
    assert rows == [
        ["250", "7", "6", "8"],
        ["500", "4", "3", "4"],
        ["1,000", "2", "2", "2"],
        ["2,500", "1", "1", "1"],
    ]
    assert "250 votes a day" in unfolded(section)


def test_both_kinds_of_fairness_stand_side_by_side():
    large = replace(SETTINGS, world=WorldSettings(models=40, prompts=50))
    shown = unfolded(
        terminal(document(TEN, large, beside=[replace(large, policy=Policy(fairness="scoped"))]))
    )
    assert "scoped fairness" in shown
    assert "30% cannot be had" in shown
    small = document(TEN, beside=[replace(SETTINGS, policy=Policy(fairness="scoped"))])
    assert "cannot be had" not in terminal(small)


def test_matchmakers_are_compared_at_the_same_votes():
    shown = terminal(document(TEN, beside=[replace(SETTINGS, matchmaker="v1")]))
    section = shown.split("Matchmakers on the same worlds")[1]
    assert re.search(r"at 1,000\s+at 2,000", section)
    assert re.search(r"v1 +1,750 +1,500–2,000 +4 +10 of 10 +80% +90%", section)


def test_worlds_without_an_evaluation_are_shown_too():
    found = document([result()])
    assert "Not official" in terminal(found)
    assert "–" in simulation_markdown(
        document([result(), result()], beside=[replace(SETTINGS, matchmaker="v1")])
    )
    assert {name: list(specs) for name, specs in simulation_charts(found).items()} == {"lanes": [LANES]}


def test_markdown_has_every_table_and_its_marks_are_text():
    text = simulation_markdown(document(TEN))
    assert text.startswith("# 20 models, 50 prompts, 500 votes a day: 10 simulated worlds\n\n**Settled after")
    assert "| prompt coverage | ≥ 0.9 | 1,250 | 1,000–1,500 | 3 | 9 of 10 |" in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.count("|") >= 4


def test_the_page_needs_nothing_else_and_draws_every_chart():
    found = document(TEN, beside=[replace(SETTINGS, matchmaker="v1")])
    page = simulation_page(found)
    body = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)=|url\(|@import""", body)
    specs = re.findall(r'<script type="application/json" id="([^"]+)">(.*?)</script>', page, re.DOTALL)
    assert len(specs) == 5
    assert len({mark for mark, _ in specs}) == 5
    for mark, spec in specs:
        assert f'data-spec="{mark}"' in page
        assert json.loads(spec)["$schema"]


def test_every_chart_can_be_drawn():
    specs = [spec for one in simulation_charts(document(TEN)).values() for spec in one.values()]
    assert len(specs) == 5
    assert all(board_charts.render_svg(spec).startswith(b"<svg") for spec in specs)


def test_charts_of_long_runs_are_thinned_to_their_last_look():
    found = document([official(99_750)])
    spec = simulation_charts(found)["rules"][OFFICIAL]
    days = [value["day"] for value in spec["data"]["values"]]
    assert len(days) == 200
    assert days[-1] == 99_750 / 500
