"""From a tournament to people in a browser, who prove its judge or do not, and to a headline run that needs the proof."""

import json

import pytest

from support.arranged import arrange, read_lines
from support.browsing import follow
from support.postgres_servers import fresh_database
from support.served import served
from support.servers.paid_llm import paid_llm


def _vote_all(page, winners, answers, *, agreeing):
    """Finish the list by forms: say what the judge said, or never."""
    for _ in range(20):
        shown = [
            page.locator(f"[data-side={side}] .response-text").first.inner_text().split(" that ")[0]
            for side in "ab"
        ]
        (one, prompt), (other, _) = (answers[text.strip()] for text in shown)
        better = winners[prompt, frozenset((one, other))]
        said = "Tie" if better is None else "A is better" if better == one else "B is better"
        wrong = "B is better" if said == "A is better" else "A is better"
        follow(page.get_by_role("button", name=said if agreeing else wrong).first)


@pytest.mark.slow
@pytest.mark.parametrize("agreeing", [True, False])
def test_people_decide_whether_a_judge_may_make_headlines(visit_site, server, template, tmp_path, agreeing):
    with paid_llm() as llm, fresh_database(server, template) as database:
        judge = {"provider": "openai", "base_url": llm.openai}
        arranged = arrange(tmp_path, models=3, prompts=20, dimensions=1, judge=judge)
        arranged.run("run", arranged.config, "--output-dir", "pilot")
        winners = {}
        for row in read_lines(tmp_path / "pilot" / "battles.jsonl"):
            pair = row["model_a"], row["model_b"]
            better = {"model_a": pair[0], "model_b": pair[1]}.get(row["winner"])
            winners[row["question_id"], frozenset(pair)] = better
        answers = {
            row["response"].split(" that ")[0]: (row["model"], row["prompt_id"])
            for row in read_lines(tmp_path / "answers.jsonl")
        }
        arranged.environment = {"DATABASE_URL": database}
        people = ("--arena", "experts", "--rater", "Ada", "--overlap", 1, "--labels", 20)
        opened = arranged.run("agree", "pilot", *people, "--base-url", "http://127.0.0.1:1")
        with served(database, folder=tmp_path / "home") as site:
            page = visit_site(site.url + "/join/" + opened.stdout.strip().partition("/join/")[2])
            follow(page.get_by_role("button", name="Join"))
            follow(page.get_by_role("button", name="Start voting"))
            _vote_all(page, winners, answers, agreeing=agreeing)
            assert page.url.endswith("/panel")
        found = arranged.run("agree", "pilot", "--arena", "experts", "--json", "--page", "judge.html").stdout
        arranged.environment = {}
        (tmp_path / "agreement.json").write_text(found, encoding="utf-8")
        assert json.loads(found)["overall"]["agreed"]["value"] == pytest.approx(float(agreeing))
        assert (tmp_path / "judge.html").stat().st_size > 1_000
        headline = ("run", arranged.config, "--mode", "headline", "--needs-agreement", 0.6)
        ran = arranged.run(*headline, "--output-dir", "out", check=False)
        assert ran.returncode == (0 if agreeing else 2)
        if agreeing:
            arranged.run("verify", "out")


@pytest.fixture
def visit_site(browser):
    """Open an address in a browser of its own, without scripts."""
    contexts = []

    def open_address(address):
        contexts.append(browser.new_context(java_script_enabled=False))
        page = contexts[-1].new_page()
        page.goto(address)
        return page

    yield open_address
    for context in contexts:
        context.close()
