"""Two web processes behind a proxy without affinity: honest votes count, and live answers are read from either."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from support.faulty_upstream import faulty_upstream
from support.invited import make_link, make_passcode
from support.live_arenas import made_arena
from support.live_sites import add_live_arena, parse_events, shown_texts
from support.path_proxy import PathProxy
from support.postgres_servers import fresh_database
from support.replicas import ARENAS, add_arenas, marks, replicas, vote_by_api, vote_by_page
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings


@pytest.fixture(scope="module")
def site(
    server: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, PathProxy]]:
    """The database and the address of a service of two processes, with a live arena too."""
    home = tmp_path_factory.mktemp("home")
    with faulty_upstream(process=True) as upstream, fresh_database(server, template) as database:
        add_arenas(database, home)
        add_live_arena(database, upstream, [f"m{number}@tokens=90,rate=30" for number in range(4)])
        with replicas(database, home) as proxy:
            yield database, proxy


@pytest.mark.slow(but=("texts-vote_by_api-10", "pictures-vote_by_page-10"))
@pytest.mark.parametrize("votes", [10, 500])
@pytest.mark.parametrize("way", [vote_by_api, vote_by_page])
@pytest.mark.parametrize("arena", ARENAS)
def test_no_honest_vote_is_unseen_or_refused(
    site: tuple[str, PathProxy], arena: str, way: Any, votes: int
) -> None:
    database, proxy = site
    before, each = Counter(marks(database, arena)), 2 if votes < 100 else 10

    async def voter() -> None:
        options = {"base_url": proxy.url, "timeout": 120, "follow_redirects": True}
        async with httpx2.AsyncClient(**options) as client:
            for _ in range(each):
                await way(client, arena)

    async def crowd() -> None:
        await asyncio.gather(*(voter() for _ in range(votes // each)))

    asyncio.run(crowd())
    assert Counter(marks(database, arena)) - before == {None: votes}
    assert len({server for _, server in proxy.passed}) == 2


@pytest.mark.slow(but="shared-link")
@pytest.mark.parametrize("way", ["invitation", "shared-link", "passcode"])
def test_an_admission_is_one_voter_in_both_processes(site: tuple[str, PathProxy], way: str) -> None:
    """The attack: a new client for each vote, which has what let in and nothing else."""
    database, proxy = site
    made_arena(
        database, name=way, settings=ArenaSettings(entry="passcode" if way == "passcode" else "invitation")
    )
    with httpx2.Client(base_url=proxy.url, timeout=120) as client:
        if way == "passcode":
            form = {"passcode": make_passcode(database, way)[0]}
            answer = client.post(f"/arenas/{way}/enter", data=form)
        else:
            answer = client.post(make_link(database, way, uses=1 if way == "invitation" else 100)[0])
        assert answer.status_code == 303
        kept = {name: client.cookies[name] for name in client.cookies if "entry" in name}
    for address in proxy.servers * 3:
        with httpx2.Client(base_url=address, timeout=120, cookies=kept) as client:
            asked = client.post(f"/api/v1/arenas/{way}/matchups", json={}).raise_for_status().json()
            path = f"/api/v1/matchups/{asked['matchup']}/vote"
            client.post(path, json={"winner": "model_a"}).raise_for_status()
    with connect(database) as connection:
        query = (
            "SELECT count(DISTINCT session), count(*) FROM matchups JOIN arenas USING (arena) WHERE name = %s"
        )
        assert connection.execute(query, (way,)).fetchone() == (1, 6)


async def read_all(client: httpx2.AsyncClient, address: str, battle: dict[str, Any]) -> tuple[str, str]:
    """Both answers as a process streams them."""
    body = b""
    async with client.stream("GET", address + battle["frames"]) as answer:
        assert answer.status_code == 200
        async for piece in answer.aiter_raw():
            body += piece
    events = parse_events(body)
    assert events[-1].data["state"] == "done"
    return shown_texts(events)


@pytest.mark.parametrize("streams", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_live_answers_are_read_from_either_process(site: tuple[str, PathProxy], streams: int) -> None:
    """Each battle is read from both processes at once; one of them does not run it."""
    database, proxy = site
    addresses = proxy.servers

    async def voter(number: int) -> None:
        async with httpx2.AsyncClient(timeout=120) as client:
            address = addresses[number % 2]
            begun = await client.post(
                f"{address}/api/v1/arenas/arena/live", json={"prompt": f"Why {number}?"}
            )
            battle = begun.raise_for_status().json()
            own, other = await asyncio.gather(*(read_all(client, one, battle) for one in addresses))
            stored = (await client.get(f"{address}/api/v1/live/{battle['matchup']}")).json()["turns"][0]
            assert own == other == (stored["a"], stored["b"])
            voted = await client.post(
                f"{addresses[1 - number % 2]}/api/v1/matchups/{battle['matchup']}/vote",
                json={"winner": "tie"},
            )
            assert voted.raise_for_status().json()["unrated"] is None

    async def crowd() -> None:
        await asyncio.gather(*(voter(number) for number in range(streams)))

    asyncio.run(crowd())
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM live_slots").fetchone() == (0,)


def test_one_voter_who_begins_twice_at_once_pays_for_one_pair(site: tuple[str, PathProxy]) -> None:
    database, proxy = site
    with connect(database) as connection:
        (before,) = connection.execute("SELECT count(*) FROM live_calls").fetchone() or (0,)

    async def scene() -> None:
        async with httpx2.AsyncClient(timeout=120) as client:
            # The voter has a session by a battle that is skipped while it runs; cookies are those of a host, at any port.
            first = await client.post(f"{proxy.url}/api/v1/arenas/arena/live", json={"prompt": "Once?"})
            skip = f"/api/v1/matchups/{first.raise_for_status().json()['matchup']}/skip"
            (await client.post(proxy.servers[0] + skip, json={})).raise_for_status()
            answers = await asyncio.gather(
                *(
                    client.post(f"{address}/api/v1/arenas/arena/live", json={"prompt": "Twice?"})
                    for address in proxy.servers
                )
            )
            begun = [answer for answer in answers if answer.status_code == 201]
            assert len(begun) == 1
            assert {answer.status_code for answer in answers} <= {201, 409, 429}
            other = next(
                one for one, answer in zip(proxy.servers, answers, strict=True) if answer not in begun
            )
            stopped = await client.post(f"{other}/api/v1/live/{begun[0].json()['matchup']}/stop")
            assert stopped.raise_for_status().json()["turns"][0]["state"] == "stopped"

    asyncio.run(scene())
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM live_calls").fetchone() == (before + 4,)
