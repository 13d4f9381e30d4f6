"""Before the vote: no byte that a voter can get tells which models stand in its matchup."""

import base64
import hashlib
import json
import re
import time

import pytest

from support.live_arenas import made_arena
from support.matchup_texts import stored_id
from support.media_files import chunk, png, png_chunk, riff, wav
from support.postgres_servers import fresh_database
from support.served import make_operator, make_token, served
from support.shown_kinds import fill_arena
from support.voted_arenas import rate, voted
from tiltyard.errors import InputError
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.edge import middleware
from tiltyard.web.routes import matchups

ASK = "/api/v1/arenas/arena/matchups"
ARENA = "/api/v1/arenas/arena"
#: Numbers begin here, so that finding one is no accident.
FAR = {"responses": ("response", 770_077_000), "sessions": ("session", 880_088_000)}
#: What may differ between two answers that say the same.
VARYING = {"date", "content-length", "content-type"}
#: Models of an arena whose pictures and sounds carry their names.
SIGNED = ("zephyr-brush-9", "quokka-paint", "heron-voice-2")
TELLING = {"etag", "last-modified", "accept-ranges", "server-timing", "content-md5", "digest", "age", "via"}


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        with connect(database) as connection:
            for table, (column, first) in FAR.items():
                connection.execute(f"ALTER TABLE {table} ALTER COLUMN {column} RESTART WITH {first}")
        voted(database, votes=40, settings=ArenaSettings(snapshot_seconds=0.05))
        made_arena(database, name="other")
        store = tmp_path_factory.mktemp("responses")
        fill_arena(database, store, "signed", *signed_answers())
        make_operator(database)
        rate(database)
        with served(database, folder=store) as running:
            yield running


def signed_answers():
    """Answers and their files, each of which says who made it."""
    rows, files = [], {}
    for model in SIGNED:
        name = model.encode()
        note = chunk(b"LIST", b"INFO" + chunk(b"ISFT", name))
        files[f"{model}.png"] = png(png_chunk(b"tEXt", b"Software\0" + name)) + name
        files[f"{model}.wav"] = riff(b"WAVE", note, wav()[12:], note)
        rows += [
            {"prompt_id": kind, "prompt": "?", "model": model, "response": f"{model}.{end}", "kind": kind}
            for kind, end in (("image", "png"), ("audio", "wav"))
        ]
    return rows, files


class Asked:
    """A matchup, as its voter has it and as the tables have it."""

    def __init__(self, site, client, *, ahead=False):
        self.answer = client.post(ASK, json={"ahead": ahead})
        assert self.answer.status_code in {200, 201}, self.answer.text
        self.shown = self.answer.json()
        self.matchup = self.shown["matchup"]
        with connect(site.database) as connection:
            self.row = connection.execute(
                "SELECT m.session, m.serial, m.response_a, m.response_b, a.name, b.name, p.name, m.reason, "
                "       m.propensity, m.position "
                "FROM matchups m JOIN models a ON a.arena = m.arena AND a.model = m.a "
                "JOIN models b ON b.arena = m.arena AND b.model = m.b "
                "JOIN prompts p ON p.arena = m.arena AND p.prompt = m.prompt WHERE matchup = %s",
                (stored_id(self.matchup),),
            ).fetchone()
            self.bytes = [
                connection.execute(
                    "SELECT bytes FROM contents JOIN responses USING (sha256) WHERE response = %s", (one,)
                ).fetchone()[0]
                for one in self.row[2:4]
            ]

    @property
    def models(self):
        return self.row[4:6]

    def secrets(self):
        """Everything that would tell, in every spelling that somebody might send it in."""
        session, _, response_a, response_b, model_a, model_b, prompt, reason, propensity, _ = self.row
        told = [str(session), str(response_a), str(response_b), model_a, model_b, prompt, reason]
        # A short one, such as 0.4, stands in many a time of day.
        told += [repr(propensity)] if len(repr(propensity)) > 6 else []
        told += [f"{number:x}" for number in (session, response_a, response_b)]
        for data in self.bytes:
            for digest in (hashlib.sha256, hashlib.sha1, hashlib.md5, hashlib.blake2b):
                found = digest(data).digest()
                spelled = [
                    found.hex(),
                    *(code(found).decode() for code in (base64.b64encode, base64.b32encode)),
                ]
                spelled.append(base64.urlsafe_b64encode(found).decode())
                told += [one[:16] for one in spelled]
        told.append(stored_id(self.matchup).hex)
        return {one.lower() for one in told}


@pytest.fixture(autouse=True)
def same_request_ids(monkeypatch):
    """Ids of requests are random; with one for all, everything else must be the same."""
    monkeypatch.setattr(middleware, "make_request_id", lambda _: "same")


def wire(answer):
    """Every byte of an answer, and its cookies."""
    head = "\n".join(f"{name}: {value}" for name, value in answer.headers.multi_items())
    return f"{answer.status_code}\n{head}\n\n".lower() + answer.content.decode("latin-1").lower()


def own(client, asked):
    """What a voter gets of its own matchup, refusals included."""
    where = f"/m/{asked.matchup}"
    sides = [client.get(f"{where}/{side}") for side in "ab"]
    return [
        asked.answer,
        client.post(ASK),
        client.get(ASK),
        *sides,
        client.get(f"{where}/a", headers={"range": "bytes=0-3", "if-none-match": "*"}),
        client.head(f"{where}/a"),
        client.options(f"{where}/b"),
        client.get(f"{where}/c"),
        client.post(f"/api/v1/matchups/{asked.matchup}/reveal"),
        client.post(f"/api/v1/matchups/{asked.matchup}/undo"),
        client.post(f"/api/v1/matchups/{asked.matchup}/vote", json={"winner": "x"}),
        client.post(f"/api/v1/matchups/{asked.matchup}/report", json={"reason": "other", "note": "x"}),
        client.get("/api/v1/me"),
        client.get("/metrics"),
    ]


def public(client):
    """What everybody may read of the arena, by address."""
    hashes = [one["snapshot"] for one in client.get(f"{ARENA}/snapshots").json()["snapshots"]]
    paths = [
        "/api/v1/arenas",
        ARENA,
        f"{ARENA}/policy",
        f"{ARENA}/board",
        f"{ARENA}/board?source=llm-judge",
        f"{ARENA}/board?retired=false",
        f"{ARENA}/board?category=none",
        f"{ARENA}/snapshots",
        f"{ARENA}/reports",
        f"{ARENA}/battles?format=csv",
        *(f"{ARENA}/models/model-{k}" for k in range(4)),
        *(f"{ARENA}/snapshots/{one}" for one in hashes),
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/v1/openapi.json",
        f"{ARENA}/models",
        f"{ARENA}/prompts",
        f"{ARENA}/responses?model=model-0&prompt=prompt-0",
        "/api/v1/arenas/other/board",
        "/",
        "/arenas/arena",
        "/arenas/arena?source=both",
        "/arenas/arena?excluded=counted",
        "/arenas/arena/board.csv",
        *(f"/arenas/arena/models/model-{k}" for k in range(4)),
        "/arenas/arena/model-charts/expected.json?model=model-0",
        "/arenas/arena/charts/ratings.json",
        *(f"/arenas/arena/boards/{one}" for one in hashes[:2]),
    ]
    return {path: client.get(path) for path in paths}


def plain(answer):
    """An answer without what is new each time: the date, names of occurrences."""
    text = re.sub(r"urn:tiltyard:occurrence:\w+", "…", answer.text)
    return answer.status_code, {k: v for k, v in answer.headers.items() if k != "date"}, text


def test_nothing_of_its_own_matchup_tells_a_voter_who_stands_in_it(site):
    client = site.client()
    for round_ in range(6):
        asked = Asked(site, client, ahead=round_ % 2 == 1)
        for answer in own(client, asked):
            text = wire(answer).replace(asked.matchup.lower(), "")
            for data in asked.bytes:
                text = text.replace(data.decode().lower(), "")
            told = [one for one in asked.secrets() if one in text]
            assert not told, (answer.request.url, told)
            assert not TELLING & set(answer.headers)
            assert answer.headers["cache-control"] == "no-store"
            numbers = set(re.findall(r"\d{7,}", re.sub(r"max-age=\d+|occurrence:\w+", "", text)))
            assert not numbers, (answer.request.url, numbers)
        client.post(f"/api/v1/matchups/{asked.matchup}/vote", json={"winner": "tie", "reveal": True})


def test_no_file_that_a_voter_gets_says_who_made_it(site):
    """Neither before the vote nor after it, when the addresses still work. What is kept is what came."""
    kinds, client = set(), site.client()
    for _ in range(6):
        shown = client.post("/api/v1/arenas/signed/matchups", json={}).json()
        where = [shown["responses"][side] for side in "ab"]
        answers = [client.get(one["url"]) for one in where]
        client.post(f"/api/v1/matchups/{shown['matchup']}/vote", json={"winner": "tie", "reveal": True})
        answers += [client.get(one["url"]) for one in where]
        assert [answer.status_code for answer in answers] == [200] * 4
        assert not [name for name in SIGNED for answer in answers if name in wire(answer)]
        assert {answer.content for answer in answers} <= {png(), wav()}
        kinds |= {one["kind"] for one in where}
    assert kinds == {"image", "audio"}
    with connect(site.database) as connection:
        kept = connection.execute(
            "SELECT bytes FROM contents WHERE position(%s IN bytes) > 0", (b"zephyr-brush-9",)
        )
        assert {bytes(data) for (data,) in kept.fetchall()} == {
            data for name, data in signed_answers()[1].items() if name.startswith("zephyr")
        }


def test_a_file_that_cannot_be_blinded_is_not_sent_at_all(site, monkeypatch):
    """It came in before such files were refused. Neither side is sent, or it would be known which one it is."""

    def refused(_media, data):
        raise InputError(f"these bytes are not whole: {data[:9]!r}")

    client = site.client()
    shown = client.post("/api/v1/arenas/signed/matchups", json={}).json()
    monkeypatch.setattr(matchups, "strip_metadata", refused)
    for side in "ab":
        answer = client.get(shown["responses"][side]["url"])
        assert answer.status_code == 404
        assert "report the matchup" in answer.json()["detail"]
        assert "these bytes" not in answer.text
    client.post(f"/api/v1/matchups/{shown['matchup']}/skip")


def test_a_response_shown_twice_has_nothing_in_common_but_its_bytes(site):
    """All answers with a response have the same headers, whatever the response, the voter and the matchup."""
    seen, heads, ids = {}, set(), []
    for _ in range(40):
        client = site.client()
        asked = Asked(site, client)
        ids.append(asked.matchup)
        for side, response in zip("ab", asked.row[2:4], strict=True):
            answer = client.get(f"/m/{asked.matchup}/{side}")
            seen.setdefault(response, []).append(answer)
            heads.add(tuple((k, v) for k, v in answer.headers.items() if k not in VARYING))
        client.post(f"/api/v1/matchups/{asked.matchup}/skip")
    assert max(map(len, seen.values())) > 1, "no response was shown twice"
    assert len(heads) == 1
    for answers in seen.values():
        assert len({answer.content for answer in answers}) == 1
    assert len(set(ids)) == len(ids)
    raw = [stored_id(one).bytes for one in ids]
    assert len({one[:6] for one in raw}) == 1, "the first six bytes are the shard's and the arena's"
    parts = {one[6:10] for one in raw} | {one[-4:] for one in raw} | {one[-13:] for one in ids}
    assert len(parts) == 3 * len(ids), "ids have parts in common"


def test_what_everybody_reads_is_the_same_whichever_matchup_is_open(site):
    reader, client = site.client(), site.client()
    before = {path: plain(answer) for path, answer in public(reader).items()}
    asked = Asked(site, client)
    told = public(client)
    after = {path: plain(answer) for path, answer in told.items()}
    assert after == before
    for answer in told.values():
        text = wire(answer)
        assert asked.matchup.lower() not in text
        assert stored_id(asked.matchup).hex not in text
        assert not [data for data in asked.bytes if data.decode().lower() in text]
        assert not [number for number in map(str, asked.row[0:1] + asked.row[2:4]) if number in text]


def board_at(client, position, source="human"):
    for _ in range(200):
        found = client.get(f"{ARENA}/board?source={source}").json()
        if found["position"] >= position:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no board of position {position}")


def newest_board(site):
    with connect(site.database) as connection:
        return connection.execute(
            "SELECT max(position) FROM snapshots JOIN arenas USING (arena) WHERE name = 'arena' AND source = 0"
        ).fetchone()[0]


def leaves(value, where=()):
    """Every value of a document by its place."""
    if not isinstance(value, dict | list):
        return {where: value}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return {place: leaf for name, part in parts for place, leaf in leaves(part, (*where, name)).items()}


def test_a_board_made_while_a_matchup_is_open_does_not_know_who_stands_in_it(site):
    """An open matchup counts as served: a board that counted it too would name its models."""
    client = site.client()
    for _ in range(8):
        rate(site.database)
        before = leaves(board_at(client, newest_board(site)))
        asked = Asked(site, client)
        rate(site.database)
        after = leaves(board_at(client, asked.row[-1]))
        changed = {where for where in before.keys() | after.keys() if before.get(where) != after.get(where)}
        assert changed <= {("at",), ("position",), ("serving", "widest", "served")}, changed
        client.post(f"/api/v1/matchups/{asked.matchup}/vote", json={"winner": "model_a", "reveal": True})


def test_a_response_can_be_read_by_its_own_voter_until_the_matchup_would_have_run_out_and_by_nobody_else(
    site,
):
    client, other = site.client(), site.client()
    Asked(site, other)
    asked = Asked(site, client)
    where = f"/m/{asked.matchup}/a"
    assert client.get(where).content == asked.bytes[0]
    for stranger in (other, site.client()):
        assert stranger.get(where).status_code == 404
        for path in (f"{ARENA}/prompts", f"{ARENA}/responses?model={asked.models[0]}&prompt={asked.row[6]}"):
            assert stranger.get(path).status_code == 401
    assert client.get(f"{ARENA}/battles").status_code == 200
    client.post(f"/api/v1/matchups/{asked.matchup}/vote", json={"winner": "tie", "reveal": True})
    assert client.get(where).content == asked.bytes[0]
    assert other.get(where).status_code == 404


def test_the_export_knows_nothing_of_matchups_that_are_open_or_may_be_undone(site):
    client = site.client()
    asked = Asked(site, client)

    operator = site.client(make_token(site.database, "admin", name="exports"))

    def positions():
        rows = operator.get(f"{ARENA}/battles/exact").text.splitlines()
        return {json.loads(row)["position"] for row in rows}

    rate(site.database)
    before = positions()
    voted_at = client.post(f"/api/v1/matchups/{asked.matchup}/vote", json={"winner": "tie"}).json()[
        "position"
    ]
    rate(site.database)
    assert voted_at not in positions()
    client.post(f"/api/v1/matchups/{asked.matchup}/reveal")
    rate(site.database)
    assert positions() == before | {voted_at}
