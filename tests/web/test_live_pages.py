"""Live battles without a browser: every page, every refusal, and the events that a page reads."""

import json
import re
import time

import pytest

from support.live_page_sites import LONG, SHORT, live_site
from support.scripted_streams import StreamScript, steady
from tiltyard.arena.live.live_records import FrameMark
from tiltyard.errors import ProviderFault


@pytest.fixture(scope="module")
def live(server, template, tmp_path_factory):
    with live_site(server, template, tmp_path_factory.mktemp("responses")) as running:
        yield running


@pytest.fixture(autouse=True)
def _quick_answers(live):
    live.answer_steadily(5_000)


def new_visitor(live):
    """Somebody with a browser that runs no scripts."""
    visitor = live.site.client()
    visitor.headers["accept"] = "text/html"
    return visitor


def ask(live, prompt="How do I reverse a list?", arena="arena"):
    """A new visitor who has asked, and the path of the battle."""
    visitor = new_visitor(live)
    answer = visitor.post(f"/arenas/{arena}/ask", data={"prompt": prompt})
    assert answer.status_code == 303, answer.text
    return visitor, answer.headers["location"]


def complete(visitor, path):
    """The page once both responses are complete."""
    for _ in range(600):
        page = visitor.get(path).text
        if "data-running" not in page:
            return page
        time.sleep(0.05)
    raise AssertionError("the responses never became complete")


def events(visitor, path, mark="1.0.0"):
    """The data of all events of a stream, with their ids."""
    found, at = [], None
    with visitor.stream("GET", path.replace("/matchups/", "/live/") + f"/stream?from={mark}") as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            if line.startswith("id: "):
                at = line[4:]
            elif line.startswith("data: "):
                found.append((at, json.loads(line[6:])))
    return found


def shown(page):
    """The responses of a page, in HTML."""
    return re.findall(r'live-answer" dir="auto">(.*?)</div>', page, re.DOTALL)


def test_without_scripts_one_asks_waits_compares_and_votes(live):
    live.answer(steady(LONG, rate=400), steady(SHORT, rate=400))
    visitor, path = ask(live)
    page = visitor.get(path).text
    assert 'http-equiv="refresh"' in page
    assert 'aria-busy="true"' in page
    assert 'aria-disabled="true" aria-describedby="why-' in page
    page = complete(visitor, path)
    assert 'http-equiv="refresh"' not in page
    assert "aria-busy" not in page
    assert "model-0" not in page
    assert visitor.get("/arenas/arena/vote").headers["location"] == path
    voted = visitor.post(f"{path}/vote", data={"winner": "model_a", "ballot": "0"})
    assert voted.headers["location"] == path
    named = visitor.post(f"{path}/reveal", data={}, follow_redirects=True).text
    assert "model-0" in named
    assert "model-1" in named
    assert "first word after" in named
    assert re.search(r"\$0\.\d{4}", named)
    assert "Your next prompt" in named
    assert "Ask two models" in visitor.get("/arenas/arena/vote").text


def test_a_vote_before_both_are_complete_is_refused_with_the_reason(live):
    live.answer(steady(LONG, rate=200))
    visitor, path = ask(live)
    refused = visitor.post(f"{path}/vote", data={"winner": "tie", "ballot": "0"}, follow_redirects=True)
    assert "must be complete" in refused.text
    assert (
        visitor.post(path.replace("/matchups/", "/live/") + "/stop", data={"part": "stop"}).status_code == 204
    )


def test_events_carry_each_block_once_and_end_with_the_turn(live):
    visitor, path = ask(live)
    found = events(visitor, path)
    assert found[-1][1]["state"] == "done"
    assert "model-" not in json.dumps(found)
    for letter in "ab":
        sides = [data[letter] for _, data in found]
        assert sides[-1]["ended"]
        assert not any("whole" in side for side in sides)
        blocks = [html for side in sides for html, _ in side.get("blocks", [])]
        assert len([html for html in blocks if "<pre" in html]) == 1
    assert found[-1][0] == read_last_mark(visitor, path)


def read_last_mark(visitor, path):
    return re.search(r'data-mark="([\d.]+)"', visitor.get(path).text)[1]


class Reader:
    """What a page makes of events, for one side."""

    def __init__(self):
        self.html, self.tail = "", ""

    def take(self, side):
        self.tail += side.get("add", "")
        for html, joins in side.get("blocks", []):
            cut = len(self.html) - len("</ul>\n") if joins else len(self.html)
            self.html = self.html[:cut] + html + self.html[cut:]
        self.tail = side.get("tail", self.tail)
        self.html = side.get("whole", self.html)


def test_a_reader_who_comes_back_at_any_moment_gets_exactly_the_rest(live):
    live.answer(steady(LONG, rate=1_500), steady(SHORT, rate=1_500))
    visitor, path = ask(live)
    whole = events(visitor, path)
    page = complete(visitor, path)
    for lost in range(0, len(whole), 3):
        readers = {"a": Reader(), "b": Reader()}
        rest = events(visitor, path, whole[lost][0])
        for _, data in (*whole[: lost + 1], *rest):
            for letter, reader in readers.items():
                reader.take(data[letter])
        for reader in readers.values():
            assert reader.tail == ""
            assert reader.html.strip() in page


def test_a_mark_that_fits_nothing_makes_the_page_load_again(live):
    visitor, path = ask(live)
    complete(visitor, path)
    stream = path.replace("/matchups/", "/live/") + "/stream"
    assert "event: gap" in visitor.get(f"{stream}?from=1.99999.0").text
    assert "event: gap" in visitor.get(f"{stream}?from=7.0.0").text
    assert visitor.get(f"{stream}?from=x").status_code == 422
    assert visitor.get(f"{stream}?from=1.0.0", headers={"last-event-id": "1.99999.0"}).text.count("gap") == 1


def test_a_whole_rendering_is_sent_only_where_blocks_differ(live):
    text = "See [it].\n\n[it]: https://example.org\n"
    live.answer(steady(text, rate=2_000), steady(SHORT, rate=2_000))
    visitor, path = ask(live)
    wholes = [data[letter].get("whole") for _, data in events(visitor, path) for letter in "ab"]
    replaced = [whole for whole in wholes if whole is not None]
    assert len(replaced) == 1
    assert 'href="https://example.org"' in replaced[0]


def test_a_battle_goes_on_with_the_same_two(live):
    visitor, path = ask(live)
    complete(visitor, path)
    more = visitor.post(
        path.replace("/matchups/", "/live/") + "/follow-up", data={"prompt": "And\r\na tuple?"}
    )
    assert more.headers["location"] == f"{path}#turn-2"
    page = complete(visitor, path)
    assert page.count('class="turn"') == 2 + 2
    assert "And\na tuple?" in page.replace("<br>", "")
    asked = [turn.text for turn in live.models.chat(0).asked[-1].turns if turn.role == "user"]
    assert asked == ["How do I reverse a list?", "And\na tuple?"]
    raw = visitor.get(path.replace("/matchups/", "/live/") + "/a")
    assert raw.headers["content-type"].startswith("text/plain")
    assert raw.text in {f"{LONG}\n\n{LONG}", f"{SHORT}\n\n{SHORT}"}


def test_stopped_answers_can_be_voted_on_and_an_empty_one_says_what_to_do(live):
    live.answer(steady(LONG, rate=150))
    visitor, path = ask(live)
    stream = path.replace("/matchups/", "/live/")
    for _ in range(200):
        if FrameMark.parsed(read_last_mark(visitor, path)).shown_a:
            break
        time.sleep(0.05)
    stopped = visitor.post(f"{stream}/stop", follow_redirects=True).text
    assert "data-running" not in stopped
    assert "data-unvotable" not in stopped
    visitor.post(f"{path}/skip")
    live.answer(StreamScript(pieces=(), hangs=True))
    visitor, path = ask(live)
    stopped = visitor.post(path.replace("/matchups/", "/live/") + "/stop", follow_redirects=True).text
    assert "data-unvotable" in stopped
    assert "Stopped before both" in stopped


def test_a_void_battle_says_so_and_offers_the_same_prompt(live):
    fault = ProviderFault("model-0 of Somebody Inc. broke")
    live.answer(StreamScript(pieces=((0.05, "Half an answer"),), fault=fault))
    visitor, path = ask(live, "Will it break?")
    events(visitor, path)
    page = visitor.get(path).text
    assert "does not count" in page
    assert "Somebody" not in page
    # Whoever leaves this page, or loads the vote page again, is offered it there.
    address = path.replace("/matchups/", "/live/") + "/again"
    for _ in range(2):
        page = visitor.get("/arenas/arena/vote").text
        assert "does not count" in page
        assert "Will it break?" in page
        assert f'action="{address}"' in page
    assert "does not count" not in new_visitor(live).get("/arenas/arena/vote").text
    live.answer_steadily(5_000)
    again = visitor.post(address).headers["location"]
    assert again != path
    assert "Will it break?" in complete(visitor, again)
    visitor.post(f"{again}/skip")
    assert "does not count" not in visitor.get("/arenas/arena/vote").text


def test_a_new_prompt_waits_for_the_vote_and_is_kept(live):
    visitor, path = ask(live)
    refused = visitor.post("/arenas/arena/ask", data={"prompt": "Something else"})
    assert refused.status_code == 409
    assert "your next prompt" in refused.text
    assert ">Something else</textarea>" in refused.text
    complete(visitor, path)
    visitor.post(f"{path}/vote", data={"winner": "tie", "ballot": "0"})
    asked = visitor.post(
        "/arenas/arena/ask", data={"prompt": "Something else", "last": path.rpartition("/")[2]}
    )
    assert asked.status_code == 303
    # The vote before became final: its names are told.
    assert "model-0" in visitor.get(path).text


def test_waiting_in_line_tells_the_place_and_when(live):
    live.answer(steady(LONG, rate=100))
    first, path = ask(live)
    slots = live.site.registry.turn_slots
    limit, slots.limit = slots.limit, 1
    try:
        refused = new_visitor(live).post("/arenas/arena/ask", data={"prompt": "Soon?"})
    finally:
        slots.limit = limit
        first.post(path.replace("/matchups/", "/live/") + "/stop")
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "number 1 in" in refused.text
    assert "data-retry=" in refused.text
    assert ">Soon?</textarea>" in refused.text


def test_nobody_else_reads_a_battle(live):
    _, path = ask(live)
    stranger = new_visitor(live)
    stranger.get("/arenas/arena/vote")
    other, _ = ask(live, "Mine")
    for visitor in (stranger, other):
        for part in ("/stream?from=1.0.0", "/a", "/b"):
            refused = visitor.get(path.replace("/matchups/", "/live/") + part)
            assert refused.status_code in {401, 404}
        for part in ("stop", "again", "follow-up"):
            refused = visitor.post(path.replace("/matchups/", "/live/") + f"/{part}", data={"prompt": "x"})
            assert refused.status_code in {401, 404}


def test_a_live_arena_serves_nothing_by_itself(live):
    visitor = new_visitor(live)
    assert visitor.post("/arenas/arena/vote").headers["location"] == "/arenas/arena/vote"
    visitor, path = ask(live)
    complete(visitor, path)
    assert (
        visitor.post("/arenas/arena/vote/ahead", data={"shown": path.rpartition("/")[2]}).status_code == 404
    )
    assert visitor.post(f"{path}/skip").headers["location"] == "/arenas/arena/vote"
