"""What access control answers: what may be cached and by whom, why it is refused, and where sign-in leads."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from support.served import bare_access
from tiltyard.arena.accounts import ALL_RIGHTS, TokenRights
from tiltyard.arena.log.event_log import JUDGE
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.errors import NotAllowed, NotFound
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access.actors import Actor
from tiltyard.web.access.route_access import send_cacheable
from tiltyard.web.edge import middleware
from tiltyard.web.pages.operator import operator_access

SOON, FOR_EVER = "max-age=5, must-revalidate", "max-age=31536000, immutable"
SHARED_SOON, SHARED_FOR_EVER = "max-age=5, stale-while-revalidate=60", f"{FOR_EVER}, s-maxage=600"


class TestCaching:
    def sent(self, visibility, stated=None, entry="open", **options):
        request = SimpleNamespace(headers={} if stated is None else {"if-none-match": stated})
        arena = SimpleNamespace(settings=ArenaSettings(visibility=visibility, entry=entry))
        return send_cacheable(request, arena, b"data", "tag", **options)

    @pytest.mark.parametrize("stated", [None, '"tag"'])
    def test_shared_caches_keep_what_is_open(self, stated):
        answer = self.sent("open", stated)
        assert answer.headers["cache-control"] == f"public, {SHARED_SOON}"
        assert "vary" not in answer.headers

    @pytest.mark.parametrize("stated", [None, '"tag"'])
    def test_shared_caches_do_not_keep_what_is_closed(self, stated):
        answer = self.sent("closed", stated)
        assert answer.headers["cache-control"] == f"private, {SOON}"
        assert answer.headers["vary"] == "Authorization, Cookie"

    @pytest.mark.parametrize("entry", ["invitation", "passcode"])
    def test_shared_caches_do_not_keep_what_is_private(self, entry):
        answer = self.sent("open", entry=entry, for_ever=True)
        assert answer.headers["cache-control"] == f"private, {FOR_EVER}"
        assert answer.headers["vary"] == "Authorization, Cookie"

    def test_other_headers_stay(self):
        given = {"Vary": "Accept", "X-Position": "7"}
        answer = self.sent("closed", headers=given)
        assert answer.headers["vary"] == "Accept, Authorization, Cookie"
        assert answer.headers["x-position"] == "7"
        assert self.sent("open", headers=given).headers["vary"] == "Accept"

    def test_what_never_changes_is_kept_for_a_year(self):
        assert self.sent("open", for_ever=True).headers["cache-control"] == f"public, {SHARED_FOR_EVER}"
        assert self.sent("closed", for_ever=True).headers["cache-control"] == f"private, {FOR_EVER}"

    def test_who_has_it_is_told_so(self):
        again = self.sent("open", '"tag"')
        assert (again.status_code, again.body, again.headers["etag"]) == (304, b"", '"tag"')
        first = self.sent("open", '"other"')
        assert (first.status_code, first.body, first.headers["etag"]) == (200, b"data", '"tag"')
        assert first.headers["content-type"] == "application/json"


class TestRefusals:
    def refusal(self, visibility, scopes, arena=None, entry="open"):
        token = SimpleNamespace(api_token=1)
        actor = Actor("token:ci", frozenset(scopes), arena, token, grants=ALL_RIGHTS)
        settings = ArenaSettings(visibility=visibility, entry=entry)
        queue = SimpleNamespace(name="main", arena=1, settings=settings)

        async def judge_session(_):
            return 7

        access = bare_access(SimpleNamespace(judge_session=judge_session))
        request = SimpleNamespace(scope={"headers": []})
        try:
            assert asyncio.run(access._judge(request, actor, queue)) == Voter(7, JUDGE)
        except (NotAllowed, NotFound) as error:
            return str(error)
        return None

    @pytest.mark.parametrize(
        ("scopes", "arena", "reason"),
        [
            (["judge"], None, None),
            (["judge"], "main", None),
            (["read"], None, "this needs the scope judge, which token:ci does not have"),
            (["admin"], "main", "this needs the scope judge, which token:ci does not have"),
            (["judge"], "other", "token:ci is for the arena other only"),
            (["judge", "import"], "other", "token:ci is for the arena other only"),
            (["read"], "other", "this needs the scope judge, which token:ci does not have"),
            (["import"], None, "this needs the scope judge, which token:ci does not have"),
            (["import"], "other", "this needs the scope judge, which token:ci does not have"),
        ],
    )
    def test_a_token_that_may_not_vote_is_told_why(self, scopes, arena, reason):
        assert self.refusal("open", scopes, arena) == reason
        welcome = arena != "other" and scopes != ["import"]
        assert self.refusal("closed", scopes, arena) == (
            reason if welcome else "no such arena: 'main'; see the list of arenas"
        )
        assert self.refusal("closed", scopes, arena, "passcode") == self.refusal("closed", scopes, arena)
        told = self.refusal("open", scopes, arena, "invitation")
        assert told == (
            reason if welcome else "this arena is private; open the invitation link that you were sent"
        )

    @pytest.mark.parametrize(
        ("stated", "looked_up"),
        [
            ("Bearer x", ["x"]),
            ("bearer x", ["x"]),
            ("Bearer " + "x" * 200, ["x" * 200]),
            ("Bearer " + "x" * 201, []),
            ("Bearer", []),
            ("Bearer ", []),
            ("Bearer é", []),
            ("Basic x", []),
        ],
    )
    def test_what_cannot_be_a_token_is_not_looked_up(self, stated, looked_up):
        asked = []

        async def find_token(token):
            asked.append(token)

        accounts = SimpleNamespace(find_token=find_token)
        access = bare_access(accounts)
        with pytest.raises(NotAllowed, match="revoked"):
            asyncio.run(access.actors.find(SimpleNamespace(headers={"authorization": stated})))
        assert asked == looked_up

    def test_a_token_that_is_remembered_is_good_as_bearer_only(self):
        asked = []

        async def find_token(token):
            asked.append(token)
            return TokenRights(SimpleNamespace(name="ci", scopes=["read"], arena=None), None, ALL_RIGHTS)

        accounts = SimpleNamespace(find_token=find_token)
        access = bare_access(accounts)

        def actor(stated):
            return asyncio.run(access.actors.find(SimpleNamespace(headers={"authorization": stated})))

        assert actor("Bearer x") == actor("bearer x")
        assert actor("Bearer x").name == "token:ci"
        for scheme in ("Basic", "Token", ""):
            with pytest.raises(NotAllowed):
                actor(f"{scheme} x")
        assert asked == ["x"]


def test_admin_covers_all_but_judging_and_a_limit_is_a_limit():
    admin = Actor("token:x", frozenset({"admin"}), grants=ALL_RIGHTS)
    assert all(admin.may(scope) for scope in ("read", "import", "admin", "metrics"))
    assert not admin.may("judge")
    limited = Actor("token:x", frozenset({"admin"}), "arena", grants=ALL_RIGHTS)
    assert limited.may("read", "arena")
    assert not limited.may("read", "shut")
    assert not limited.may("read")


class TestSignIn:
    @pytest.mark.parametrize(
        ("method", "path", "query", "led"),
        [
            ("GET", "/operator/tokens", "", "/operator/sign-in?next=%2Foperator%2Ftokens"),
            ("GET", "/operator/audit", "page=2", "/operator/sign-in?next=%2Foperator%2Faudit%3Fpage%3D2"),
            ("GET", "//elsewhere.example", "", "/operator/sign-in?next=%2Foperator"),
            ("POST", "/operator/tokens", "", "/operator/sign-in"),
        ],
    )
    def test_it_leads_back_to_the_page_that_was_wanted(self, method, path, query, led):
        request = SimpleNamespace(method=method, url=SimpleNamespace(path=path, query=query))
        assert operator_access._sign_in(request) == led


class TestEdgeAnswers:
    @pytest.mark.parametrize("wanted", [False, True])
    def test_requests_are_logged_if_that_is_wanted(self, wanted, monkeypatch):
        logged, counted = [], []
        monkeypatch.setattr(middleware, "log_event", lambda event, **values: logged.append((event, values)))
        door = middleware.EdgeMiddleware(
            None,
            settings=ServingSettings(port=0, log_requests=wanted),
            metrics=SimpleNamespace(answered=lambda *values: counted.append(values)),
            dressed=None,
        )
        door._note({"method": "BREW"}, 404, 0.0125)
        assert counted == [("none", "OTHER", 404, 0.0125)]
        values = {"route": "none", "method": "OTHER", "status": 404, "ms": 12.5}
        assert logged == ([("request", values)] if wanted else [])

    def test_a_large_upload_is_told_both_limits(self):
        scope = {"path": "/operator/arenas/main/uploads"}
        answer = middleware._too_large(scope, middleware.MAX_UPLOAD_FORM_BYTES)
        told = json.loads(answer.body)["detail"]
        assert answer.status_code == 413
        assert "64 MiB" in told
        assert "/api/v1/arenas/main/responses" in told
        other = json.loads(middleware._too_large(scope, 1024**2).body)["detail"]
        assert "more than 1048576 bytes" in other
