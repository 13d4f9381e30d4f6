"""Every route by which an operator changes something writes an audit entry with what was before and after.

The routes are those of the table of roles, so that a new one must say here how it is used.
"""

import asyncio
import base64
import json
import re
import time
from functools import partial

import pytest

from support.live_sites import local_environment
from support.live_worlds import make_live_arena
from support.postgres_servers import fresh_database
from support.visitors import furnished, sign_in
from tiltyard.arena.live.entrant_pool import open_entrant
from tiltyard.arena.operators.second_factor import STEP_SECONDS, code_at
from tiltyard.postgres.connections import connect
from tiltyard.web.access.route_access import ROUTE_NEEDS

API, PAGES = "/api/v1/arenas/arena", "/operator/arenas/arena"
#: Nothing that others see is changed by these: a file of an hour, and a key that is not in use.
DRAFTS = {
    "POST /operator/arenas/{arena}/uploads",
    "POST /operator/arenas/{arena}/uploads/{upload}/discard",
    "POST /operator/arenas/{arena}/answers/write",
    "POST /operator/account/second-factor",
}
VOTE = {"model_a": "model-0", "model_b": "model-1", "prompt_id": "prompt-0", "winner": "tie"}
ANSWER = {"prompt_id": "new", "prompt": "New?", "model": "model-9", "response": "Yes."}


class Steps:
    """The uses, in an order in which each finds what it needs."""

    def __init__(self, found):
        self.found = found
        self.database = found.site.database
        self.client = found.site.client()
        sign_in(self.client)
        self.other = found.site.client()
        self.done = {}

    def one(self, query):
        with connect(self.database) as connection:
            return connection.execute(query).fetchone()[0]

    def use(self, route, path, **body):
        """Send a request that changes something; keep the entries that it wrote."""
        before = self.one("SELECT coalesce(max(entry), 0) FROM audit")
        answer = self.client.request(route.split(" ")[0], path, **body)
        assert answer.status_code < 400, (route, answer.status_code, answer.text[:500])
        with connect(self.database) as connection:
            rows = connection.execute(
                "SELECT actor, action, detail FROM audit WHERE entry > %s ORDER BY entry", (before,)
            ).fetchall()
        assert route not in self.done
        self.done[route] = rows
        return answer

    def arenas(self):
        self.use("POST /api/v1/arenas", "/api/v1/arenas", json={"name": "by-api"})
        self.use("POST /operator/arenas", "/operator/arenas", data={"name": "by-page"})
        self.use("PATCH /api/v1/arenas/{arena}", API, json={"title": "Another"})
        self.use("POST /operator/arenas/{arena}/settings", f"{PAGES}/settings", data={"undo_seconds": "7"})
        self.use("PATCH /api/v1/arenas/{arena}/policy", f"{API}/policy", json={"prompt_floor": 3})
        self.use("POST /operator/arenas/{arena}/policy", f"{PAGES}/policy", data={"contenders": "7"})
        self.use("POST /operator/arenas/{arena}/phase", f"{PAGES}/phase", data={"phase": "2"})

    def contents(self):
        line = {
            "content": json.dumps(ANSWER).encode(),
            "headers": {"content-type": "application/x-ndjson"},
        }
        self.use("POST /api/v1/arenas/{arena}/responses", f"{API}/responses", **line)
        votes = [json.dumps(VOTE | {"voter": who}).encode() for who in ("ann", "bob")]
        self.use("POST /api/v1/arenas/{arena}/past-votes", f"{API}/past-votes", content=votes[0])
        form = {"file": ("votes.jsonl", votes[1])}
        self.use("POST /operator/arenas/{arena}/past-votes", f"{PAGES}/past-votes", files=form)
        for model in ("model:path}/retire", "model:path}/enable"):
            name = model.rpartition("/")[2]
            self.use(f"POST /api/v1/arenas/{{arena}}/models/{{{model}", f"{API}/models/model-3/{name}")
        for name in ("retire", "enable"):
            self.use(
                f"POST /operator/arenas/{{arena}}/models/{name}",
                f"{PAGES}/models/{name}",
                data={"model": "model-3"},
            )
        self.use(
            "POST /api/v1/arenas/{arena}/withdrawals",
            f"{API}/withdrawals",
            json={"prompt": "prompt-5", "reason": "asked"},
        )
        self.use(
            "POST /operator/arenas/{arena}/prompts/withdraw",
            f"{PAGES}/prompts/withdraw",
            data={"prompt": "prompt-4", "reason": "asked"},
        )
        for name in ("hide", "show"):
            self.use(
                f"POST /operator/arenas/{{arena}}/prompts/{name}",
                f"{PAGES}/prompts/{name}",
                data={"prompt": "prompt-3"},
            )
        self.use("POST /operator/arenas/{arena}/texts", f"{PAGES}/texts", data={"instructions": "Read both."})
        sent = json.dumps(ANSWER | {"prompt_id": "newer"}).encode()
        upload = self.client.post(f"{PAGES}/uploads", files={"file": ("a.jsonl", sent)}).headers["location"]
        expected = re.search(r'name="expected" value="(\d+)"', self.client.get(upload).text)[1]
        self.use(
            "POST /operator/arenas/{arena}/uploads/{upload}/let-in",
            f"{upload}/let-in",
            data={"expected": expected},
        )

    def live(self):
        section = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
        asyncio.run(make_live_arena(self.database, 2, name="live", config=lambda _: section))
        registry = self.found.site.registry
        registry.open_entrant = partial(open_entrant, environment=local_environment())
        live = "/operator/arenas/live/live"
        form = {"name": "Wren", "endpoint": "0", "model": "wren", "input": "0", "output": "0", "act": "add"}
        self.use("POST /operator/arenas/{arena}/live/model", f"{live}/model", data=form)
        self.use(
            "POST /operator/arenas/{arena}/live/pause", f"{live}/pause", data={"model": "Wren", "paused": "1"}
        )

    def votes(self):
        made = self.use(
            "POST /api/v1/arenas/{arena}/exclusions",
            f"{API}/exclusions",
            json={"reason": "asked", "sessions": [2]},
        ).json()["exclusion"]
        self.use(
            "POST /api/v1/arenas/{arena}/exclusions/{exclusion}/restore", f"{API}/exclusions/{made}/restore"
        )
        self.use(
            "POST /operator/arenas/{arena}/exclude",
            f"{PAGES}/exclude",
            data={"session": "3", "reason": "asked"},
        )
        with connect(self.database) as connection:
            connection.execute(
                "INSERT INTO crowd_changes (arena, position, found_at, model, vote_group, detail) "
                "VALUES (1, 1, now(), 0, 0, '{}')"
            )
        self.use(
            "POST /operator/arenas/{arena}/crowd/{change}/explain",
            f"{PAGES}/crowd/1/explain",
            data={"reason": "asked"},
        )
        last = self.one("SELECT max(exclusion) FROM exclusions")
        self.use(
            "POST /operator/arenas/{arena}/exclusions/{exclusion}/restore",
            f"{PAGES}/exclusions/{last}/restore",
        )
        erased = {"session": "4", "reason": "asked"}
        self.use("POST /operator/arenas/{arena}/erase", f"{PAGES}/erase", data=erased)
        route = "POST /api/v1/arenas/{arena}/complaints/{complaint}/settle"
        self.use(route, f"{API}/complaints/1/settle")
        with connect(self.database) as connection:
            connection.execute("UPDATE complaints SET settled_at = NULL")
        self.use(
            "POST /operator/arenas/{arena}/complaints/{complaint}/settle", f"{PAGES}/complaints/1/settle"
        )

    def stages(self):
        self.use("POST /operator/arenas/{arena}/stage", f"{PAGES}/stage", data={"act": "pause"})
        self.use(
            "POST /operator/arenas/{arena}/stage/delete", f"{PAGES}/stage/delete", data={"typed": "arena"}
        )
        self.use("POST /operator/arenas/{arena}/stage/keep", f"{PAGES}/stage/keep")

    def models(self):
        told = {"model": "model-2", "maker": "Someone"}
        self.use("POST /operator/arenas/{arena}/models/details", f"{PAGES}/models/details", data=told)
        file = {"file": ("details.csv", b"model,maker\nmodel-2,Another\n")}
        self.use(
            "POST /operator/arenas/{arena}/models/details-file", f"{PAGES}/models/details-file", files=file
        )

    def panels(self):
        asked = {"name": "experts", "raters": "Ada\nGrace", "overlap": "2", "pairs": "1"}
        page = self.use("POST /operator/arenas/{arena}/panels", f"{PAGES}/panels", data=asked)
        codes = list(dict.fromkeys(re.findall(r"/join/([\w-]+)", page.text)))
        for code, winner in zip(codes, ("tie", "both_bad"), strict=True):
            rater = self.found.site.client()
            assert rater.post(f"/join/{code}").status_code == 303
            for _ in range(self.one("SELECT count(*) FROM panel_items")):
                matchup = rater.post(f"{API}/matchups").json()["matchup"]
                assert rater.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": winner}).is_success
        number = self.one("SELECT max(panel) FROM expert_panels")
        item = self.one("SELECT min(item) FROM panel_items")
        self.use(
            "POST /operator/arenas/{arena}/panels/{panel}/adjudicate",
            f"{PAGES}/panels/{number}/adjudicate",
            data={"item": str(item), "verdict": "0", "note": "asked"},
        )
        self.use("POST /operator/arenas/{arena}/panels/{panel}/close", f"{PAGES}/panels/{number}/close")

    def invitations(self):
        self.use(
            "POST /operator/arenas/{arena}/invitations",
            f"{PAGES}/invitations",
            data={"batch": "b", "uses": "1", "days": "1"},
        )
        number = self.one("SELECT max(invitation) FROM invitations")
        self.use(
            "POST /operator/arenas/{arena}/invitations/{invitation}/remind",
            f"{PAGES}/invitations/{number}/remind",
        )
        self.use(
            "POST /operator/arenas/{arena}/invitations/{invitation}/revoke",
            f"{PAGES}/invitations/{number}/revoke",
        )
        self.use("POST /operator/arenas/{arena}/invitations/passcode", f"{PAGES}/invitations/passcode")

    def tokens(self):
        body = {"name": "x", "scopes": ["read"]}
        self.use("POST /operator/tokens", "/operator/tokens", data=body)
        last = self.one("SELECT max(api_token) FROM api_tokens")
        self.use("POST /operator/tokens/{api_token}/revoke", f"/operator/tokens/{last}/revoke")

    def people(self):
        given = {"invitee": "Grace", "role": "analyst", "days": "1"}
        for where, path in (("", ""), ("/arenas/{arena}", "/arenas/arena")):
            page = self.use(f"POST /operator{where}/operators", f"/operator{path}/operators", data=given)
            code = re.search(r"/claim/([\w-]+)", page.text)[1]
            link = self.one("SELECT max(link) FROM operator_links")
            if path:
                claimed = self.other.post(
                    f"/claim/{code}", data={"name": "Grace", "password": "a long password"}
                )
                assert claimed.status_code == 200
                self.client.post(f"/operator{path}/operators", data=given)
                link += 1
            self.use(
                f"POST /operator{where}/operators/invitations/{{link}}/revoke",
                f"/operator{path}/operators/invitations/{link}/revoke",
            )
        number = self.one("SELECT operator FROM operators WHERE name = 'Grace'")
        for where, path in (("", ""), ("/arenas/{arena}", "/arenas/arena")):
            self.use(
                f"POST /operator{where}/operators/{{operator}}/role",
                f"/operator{path}/operators/{number}/role",
                data={"role": "moderator"},
            )
        self.use("POST /operator/operators/{operator}/sign-out", f"/operator/operators/{number}/sign-out")
        self.use("POST /operator/operators/{operator}/remove", f"/operator/operators/{number}/remove")

    def account(self):
        for _ in range(2):
            sign_in(self.other)
        last = self.one("SELECT max(session) FROM operator_sessions")
        self.use("POST /operator/account/sessions/{session}/end", f"/operator/account/sessions/{last}/end")
        self.use("POST /operator/account/sessions/end-others", "/operator/account/sessions/end-others")
        page = self.client.post("/operator/account/second-factor")
        key = _key(re.search(r"<code data-key>([A-Z2-7 ]+)</code>", page.text)[1])
        path = "/operator/account/second-factor"
        self.use(f"POST {path}/confirm", f"{path}/confirm", data={"code": _now(key)})
        with connect(self.database) as connection:
            connection.execute("UPDATE operators SET totp_step = 0")
        self.use(f"POST {path}/off", f"{path}/off", data={"code": _now(key)})


def _key(text):
    return base64.b32decode(text.replace(" ", ""))


def _now(key):
    return code_at(key, int(time.time()) // STEP_SECONDS)


def pairs(detail):
    """What changed, by name: before and after."""
    for name, value in (detail | detail.get("changed", {})).items():
        if isinstance(value, list) and len(value) == 2 and value[0] != value[1]:
            yield name, *value


@pytest.fixture(scope="module")
def done(server, template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("responses")
    with fresh_database(server, template) as database, furnished(database, folder) as found:
        steps = Steps(found)
        for part in (
            "arenas",
            "contents",
            "live",
            "votes",
            "invitations",
            "tokens",
            "people",
            "account",
            "models",
            "panels",
            "stages",
        ):
            getattr(steps, part)()
        yield steps.done


def test_every_route_that_changes_something_is_used_here(done):
    changing = {route for route in ROUTE_NEEDS if not route.startswith("GET ")}
    assert changing - done.keys() - DRAFTS == set()


def test_every_change_is_in_the_audit_with_what_was_before_and_after(done):
    missing = {
        route: rows
        for route, rows in done.items()
        if not rows or not all([*pairs(detail)] for _, _, detail in rows)
    }
    assert missing == {}
    assert {actor for rows in done.values() for actor, _, _ in rows} == {"operator:Ada"}
