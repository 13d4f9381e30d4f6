"""What the operator is told of an arena at a glance, by HTTP: rules, scheduled work, whose votes are left out."""

import asyncio
import html
import json
import re
import time

import pytest

from support.operating import HOSTILE, copied, signed, voted_database
from support.served import make_token
from tiltyard.arena.operators.exclusions import VoteSelection, exclude, restore
from tiltyard.arena.operators.job_status import JOB_PLANS
from tiltyard.foundation.caches import SingleFlight
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.simulation.settling_gap import SettlingForecast
from tiltyard.web.pages.operator import arenas

BASE = "/operator/arenas/arena"


def nearly(database):
    """The newest board misses one rule by a little."""
    with connect(database) as connection:
        where = "WHERE source = 0 AND position = (SELECT max(position) FROM snapshots WHERE source = 0)"
        (told,) = connection.execute(f"SELECT document FROM snapshots {where}").fetchone()
        document = json.loads(told)
        rule = next(one for one in document["rules"] if one["name"] == "top-coverage")
        rule |= {"value": 0.8996, "bar": 0.9, "holds": False}
        connection.execute(f"UPDATE snapshots SET document = %s {where}", (json.dumps(document),))


@pytest.fixture(scope="module")
def prepared(server, template):
    with voted_database(server, template, nearly) as name:
        yield name


@pytest.fixture(scope="module")
def running(server, prepared):
    with copied(server, prepared) as found:
        yield found


def rows_of(page, region):
    """The cells of each row of a table, as texts."""
    table = page.partition(f'aria-label="{region}"')[2].partition("</table>")[0].partition("<tbody>")[2]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [
        [text_of(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows
    ]


def text_of(cell):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", cell)).split())


def test_work_that_nobody_does_is_late(running):
    page = signed(running).get(BASE).text
    rows = rows_of(page, "Scheduled jobs")
    assert len({row[0] for row in rows}) == len(JOB_PLANS)
    assert {row[2] for row in rows} == {"late"}


def test_exclusions_tell_whose_votes_they_have_and_who_made_them(running):
    make_token(running.database, "judge", name=f"Portia {HOSTILE}")

    async def made():
        async with open_pool(running.database, most=1) as pool:
            for selection in (VoteSelection(sessions=[2]), VoteSelection(source=0)):
                await exclude(pool, "arena", selection, "a test", actor="token:cli <b>")
            await restore(pool, "arena", 1, actor="operator:Ada")

    asyncio.run(made())
    client = signed(running)
    everybody, one = rows_of(client.get(f"{BASE}/exclusions").text, "Exclusions")
    assert one[1].endswith(" UTC by token:cli <b>")
    assert one[2:4] == ["2", "6"]
    assert one[5].endswith(" UTC by operator:Ada")
    assert everybody[2:4] == ["1 , 2 , 3 , 4 , 5", "30"]
    page = client.get(f"{BASE}/exclusions/1/restore").text
    assert f'href="{BASE}/voters/2">2</a>' in page
    assert "by <bdi>token:cli &lt;b&gt;</bdi>" in page


def test_the_overview_says_what_the_arena_can_settle(running, monkeypatch):
    monkeypatch.setattr(arenas, "_SIMULATIONS", SingleFlight())
    found = SettlingForecast(3, 6, 12, 308.1, 14, 0, 181.3)
    monkeypatch.setattr(arenas, "settling_forecast", lambda *_shape: found)
    page = text_of(signed(running).get(BASE).text)
    assert "about 310 points" in page
    assert "about 180. Add" in page
    monkeypatch.setattr(arenas, "settling_forecast", lambda *_shape: time.sleep(0.2))
    monkeypatch.setattr(arenas, "_SIMULATION_WAIT_SECONDS", 0.01)
    assert "Reload the page" in text_of(signed(running).get(BASE).text)
