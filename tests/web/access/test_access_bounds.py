"""Limits of access to the last unit: what is just allowed, and what is just not."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import pytest
from starlette.exceptions import HTTPException

from support.served import SECRET, bare_access
from tiltyard.arena import accounts
from tiltyard.arena.log.event_log import PendingNames
from tiltyard.arena.processes.shared_limits import SharedLimits
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.arena_state import CACHED_SESSION_LIMIT, RevealedNames, VoterKnowledge
from tiltyard.errors import BadOption, Busy, NotAllowed
from tiltyard.settings.arena_settings import MAX_SESSION_VOTES
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access.cookies import OPERATOR_COOKIE, VOTER_COOKIE, VOTER_COOKIE_LIFETIME, Cookies
from tiltyard.web.access.rate_limits import SignInThrottle, client_network
from tiltyard.web.access.route_access import _has
from tiltyard.web.edge import middleware
from tiltyard.web.pages.operator import sign_in

COOKIES = Cookies(SecretKeys([SECRET]), secure=False)
DAY = 24 * 60 * 60


class TestCookies:
    def test_a_signature_of_sixteen_bytes_follows_the_token(self):
        token, _, signature = COOKIES.seal(VOTER_COOKIE, "token").partition(".")
        assert (token, len(signature)) == ("token", 22)
        assert COOKIES.unseal(VOTER_COOKIE, f"{token}.{signature}") == "token"

    def test_one_for_a_voter_is_none_for_the_operator(self):
        sealed = COOKIES.seal(VOTER_COOKIE, "token")
        assert COOKIES.unseal(OPERATOR_COOKIE, sealed) is None

    @pytest.mark.parametrize("value", ["", "token", "token.", ".", "tökén.abc", "token.a", "token.ä"])
    def test_what_is_not_signed_has_no_token(self, value):
        assert COOKIES.unseal(VOTER_COOKIE, value) is None

    def test_a_long_one_is_not_looked_at(self):
        assert COOKIES.unseal(VOTER_COOKIE, COOKIES.seal(VOTER_COOKIE, "x" * 177)) == "x" * 177
        assert COOKIES.unseal(VOTER_COOKIE, COOKIES.seal(VOTER_COOKIE, "x" * 178)) is None

    def test_they_live_as_long_as_they_are_meant_to_and_no_longer(self):
        voter = COOKIES.header(VOTER_COOKIE, "token", VOTER_COOKIE_LIFETIME)
        operator = COOKIES.header(OPERATOR_COOKIE, "token", accounts.OPERATOR_SESSION_LIFETIME)
        assert f"; Max-Age={400 * DAY}; HttpOnly; SameSite=Lax" in voter
        assert f"; Max-Age={7 * DAY}; HttpOnly; SameSite=Lax" in operator
        cleared = "tiltyard_operator=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
        assert COOKIES.clear_header(OPERATOR_COOKIE) == cleared


class TestKeys:
    def test_a_key_has_thirty_two_characters_or_more_and_there_are_two_at_most(self):
        SecretKeys(["k" * 32, "l" * 32])
        for wrong in ([], ["k" * 31], ["k" * 32, "l" * 31], ["k" * 32] * 3):
            with pytest.raises(BadOption):
                SecretKeys(wrong)

    @pytest.mark.parametrize(("length", "holds"), [(15, False), (16, True), (17, True), (32, True)])
    def test_a_signature_may_be_cut_to_sixteen_bytes(self, length, holds):
        keys = SecretKeys([SECRET])
        assert keys.verify("p", b"m", keys.sign("p", b"m")[:length]) is holds

    def test_a_pseudonym_has_twelve_bytes(self):
        assert len(SecretKeys([SECRET]).pseudonym("release", 1)) == 1 + 16


class TestPasswordsAndTokens:
    @pytest.mark.parametrize(("length", "right"), [(11, False), (12, True), (1024, True), (1025, False)])
    def test_a_password_has_twelve_characters_or_more(self, length, right):
        if right:
            accounts.check_password(("river boat " * 100)[:length])
        else:
            with pytest.raises(BadOption, match=f"has {length} characters"):
                accounts.check_password("x" * length)

    @pytest.mark.parametrize(
        "password",
        [
            "passwordpassword",
            "Password123456",
            "xxxxxxxxxxxxxxx",
            "abababababab",
            "qwertyuiop123",
            "welcomeadmin!",
        ],
    )
    def test_what_is_guessed_first_is_no_password(self, password):
        with pytest.raises(BadOption, match="easily guessed"):
            accounts.check_password(password)

    @pytest.mark.parametrize("name", ["", "x" * 101, " Ada", "Ada ", "A\nda"])
    def test_a_name_has_a_hundred_printable_characters_at_most(self, name):
        accounts.check_person_name("x" * 100)
        accounts.check_person_name("x")
        with pytest.raises(BadOption):
            accounts.check_person_name(name)

    @pytest.mark.parametrize(
        ("life", "right"),
        [
            (None, True),
            (timedelta(microseconds=1), True),
            (timedelta(days=3650), True),
            (timedelta(days=3650, microseconds=1), False),
            (timedelta(0), False),
            (timedelta(seconds=-1), False),
        ],
    )
    def test_a_token_lives_for_a_moment_or_for_ten_years(self, life, right):
        if right:
            accounts._check_token("ci", ["read"], life)
        else:
            with pytest.raises(BadOption, match="ten years"):
                accounts._check_token("ci", ["read"], life)

    @pytest.mark.parametrize("scopes", [[], ["root"], ["read", "root"]])
    def test_a_token_has_scopes_that_exist(self, scopes):
        with pytest.raises(BadOption, match="scopes"):
            accounts._check_token("ci", scopes, None)

    def test_sign_ins_last_a_week_and_links_an_hour(self):
        assert (timedelta(days=7), timedelta(hours=1)) == (
            accounts.OPERATOR_SESSION_LIFETIME,
            accounts.OPERATOR_LINK_LIFETIME,
        )

    def test_what_is_too_long_to_be_anybodys_is_not_looked_up(self):
        longest = ("n" * 100, "p" * 1024)
        assert sign_in._tried(*longest) == longest
        for wrong in (("n" * 101, "p"), ("n", "p" * 1025), ("n\0", "p"), ("n", "p\0")):
            with pytest.raises(NotAllowed):
                sign_in._tried(*wrong)


class TestCrowds:
    def test_twenty_of_one_address_may_wait_and_a_wrong_one_takes_half_a_second(self):
        async def scene():
            throttle, entered = SignInThrottle("tests", 100, SharedLimits(None, SecretKeys([SECRET]))), 0
            assert (throttle._seconds, throttle._checking._value) == (0.5, 2)
            hold = asyncio.Event()

            async def trying():
                nonlocal entered
                async with throttle.sign_in_attempt("a"):
                    entered += 1
                    await hold.wait()

            waiting = [asyncio.create_task(trying()) for _ in range(20)]
            await asyncio.sleep(0)
            with pytest.raises(Busy):
                async with asyncio.timeout(30), throttle.sign_in_attempt("a"):
                    pass
            hold.set()
            await asyncio.gather(*waiting)
            assert (entered, throttle._lines) == (20, {})

        asyncio.run(scene())

    def test_an_address_of_ipv6_is_known_by_its_first_sixty_four_bits(self):
        assert client_network("2001:db8:1:2:ffff::1") == "2001:db8:1:2::/64"
        assert client_network("::ffff:192.0.2.1") == "192.0.2.1"
        assert client_network("x" * 101) == "x" * 100

    def test_fifty_thousand_are_remembered(self):
        access = bare_access()
        caches = (access.sessions._known, access.actors._by_token, access._judges)
        assert [cache.limit for cache in caches] == [50_000] * 3


def scope_of(method="POST", path="/x", **headers):
    pairs = [(name.replace("_", "-").encode(), str(value).encode()) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": path, "scheme": "http", "headers": pairs}


def checked(scope, settings=None):
    """The status of a refusal, if it is one."""
    door = middleware.EdgeMiddleware(
        None,
        settings=settings or ServingSettings(port=0),
        metrics=None,
        dressed=lambda _, answer: answer,
    )
    refusal, _ = door._checked(scope, None, middleware._Headers(scope["headers"]))
    return None if refusal is None else refusal.status_code


class TestEdge:
    IMPORT = "/api/v1/arenas/main/responses"
    UPLOAD = "/operator/arenas/main/uploads"
    OPERATOR = f"{OPERATOR_COOKIE}=x"

    @pytest.mark.parametrize(
        ("path", "headers", "limit"),
        [
            ("/x", {}, 1024**2),
            (IMPORT, {}, 1024**2),
            (IMPORT, {"authorization": "Bearer x"}, 1024**3),
            (IMPORT, {"cookie": OPERATOR}, 1024**3),
            (UPLOAD, {"cookie": OPERATOR}, 64 * 1024**2 + 64 * 1024),
            (UPLOAD, {"authorization": "Bearer x"}, 1024**2),
            (UPLOAD, {}, 1024**2),
        ],
    )
    def test_a_body_may_have_so_many_bytes_and_not_one_more(self, path, headers, limit):
        assert checked(scope_of(path=path, content_length=limit, **headers)) is None
        assert checked(scope_of(path=path, content_length=limit + 1, **headers)) == 413
        assert checked(scope_of(method="PUT", path=path, content_length=1024**2 + 1, **headers)) == 413

    def test_a_body_of_unknown_length_is_counted(self):
        async def scene(*sizes):
            pieces = iter(sizes)

            async def receive():
                return {"type": "http.request", "body": b"x" * next(pieces)}

            receiving = middleware._counted(receive, 10)
            for _ in sizes:
                await receiving()

        asyncio.run(scene(4, 6))
        with pytest.raises(HTTPException):
            asyncio.run(scene(4, 7))

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({}, None),
            ({"host": "localhost:8"}, None),
            ({"host": "elsewhere.example"}, 403),
            ({"host": "localhost:8", "origin": "http://localhost:8"}, None),
            ({"host": "localhost:8", "origin": "https://localhost:8"}, 403),
            ({"host": "localhost:8", "origin": "http://localhost:9"}, 403),
            ({"sec_fetch_site": "none"}, None),
            ({"sec_fetch_site": "same-origin"}, None),
            ({"sec_fetch_site": "same-site"}, 403),
            ({"sec_fetch_site": "cross-site"}, 403),
            ({"sec_fetch_site": "cross-site", "authorization": "Bearer x"}, None),
        ],
    )
    def test_only_our_own_pages_and_programs_change_anything(self, headers, status):
        assert checked(scope_of(**headers)) == status
        if headers.get("host") != "elsewhere.example":
            assert checked(scope_of("GET", **headers)) is None

    def test_with_a_base_url_every_name_leads_here_and_one_origin_is_ours(self):
        ours = ServingSettings(base_url="https://arena.example")
        assert checked(scope_of("GET", host="elsewhere.example"), ours) is None
        assert checked(scope_of(host="a", origin="https://ARENA.example"), ours) is None
        assert checked(scope_of(host="a", origin="http://a"), ours) == 403
        assert checked(scope_of("GET", "/healthz", host="elsewhere.example")) is None


class TestRevealedNames:
    def pending(self, serial):
        return SimpleNamespace(serial=serial, a=0, b=1, prompt=2, response_a=3, response_b=4, free_prompt=0)

    def test_a_name_told_of_either_side_ends_blindness(self):
        for told in ({3: (0, 2)}, {4: (1, 2)}, {3: (0, 2), 4: (1, 2)}):
            assert not VoterKnowledge(told).is_blind(self.pending(0))
        assert VoterKnowledge({5: (0, 2)}).is_blind(self.pending(0))

    def test_votes_of_the_longest_session_wait_and_the_oldest_goes_first(self):
        names = VoterKnowledge()
        for serial in range(MAX_SESSION_VOTES):
            names.vote(self.pending(serial))
        assert (MAX_SESSION_VOTES, len(names.pending)) == (200, 200)
        names.vote(self.pending(1000))
        assert list(names.pending)[:1] + list(names.pending)[-1:] == [1, 1000]
        assert len(names.pending) == 200

    def test_telling_ends_the_wait_and_undoing_too(self):
        names = VoterKnowledge()
        names.vote(self.pending(7))
        names.vote(self.pending(8))
        names.undo(8)
        names.undo(9)
        assert names.pending == {7: PendingNames(7, 0, 1, 2, 3, 4)}
        names.tell(self.pending(7))
        assert (names.pending, names.revealed) == ({}, {3: (0, 2), 4: (1, 2)})

    def test_a_thousand_voters_are_known_and_who_was_asked_for_stays(self):
        known = RevealedNames()
        for session in range(CACHED_SESSION_LIMIT):
            known.remember(session, [], [])
        assert (CACHED_SESSION_LIMIT, 0 in known) == (1_000, True)
        known.of(0)
        known.remember(5_000, [], [])
        assert [session in known for session in (0, 1, 2, 5_000)] == [True, False, True, True]
        assert known.find(1) is None


@pytest.mark.parametrize(
    ("stated", "has"),
    [
        (None, False),
        ("", False),
        ('"b"', False),
        ('"a"', True),
        ('W/"a"', True),
        ('"b", W/"a"', True),
        ("*", True),
    ],
)
def test_who_has_a_document_says_so_by_its_tag(stated, has):
    assert _has(stated, '"a"') is has
