"""Signing in at a real provider in a browser: come in, vote, sign out."""

import pytest

from support.ballots import seen_both
from support.browsing import DESKTOP, PHONE, SIZES, follow, looks_right, readable
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.real_provider import REAL_CLIENT_SECRET, real_provider
from support.served import served
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import GroupRole, SignInSettings


@pytest.fixture(scope="module")
def provider():
    with real_provider() as running:
        yield running


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory, provider):
    settings = SignInSettings(
        issuer=provider.issuer,
        client_id="tiltyard",
        client_secret=REAL_CLIENT_SECRET,
        roles=(GroupRole("heads", "owner"), GroupRole("helpers", "moderator", "judged")),
    )
    with fresh_database(server, template) as database:
        made_arena(database, settings=ArenaSettings(entry="sign-in"))
        made_arena(database, name="judged", settings=ArenaSettings(entry="sign-in", entry_groups="judges"))
        with served(database, folder=tmp_path_factory.mktemp("responses"), sign_in=settings) as running:
            provider.allow(f"{running.url}/sign-in/0/callback")
            yield running


def sign_in_at_provider(page, account):
    """From the page that asks for it, through the provider, and back."""
    follow(page.get_by_role("link", name="Sign in", exact=True))
    page.get_by_label("Account").fill(account)
    follow(page.get_by_role("button", name="Enter"))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("js", [pytest.param(True, id="script"), pytest.param(False, id="plain")])
def test_a_colleague_signs_in_votes_and_signs_out(visit, site, provider, size, js):
    opened = visit("/arenas/arena/vote", js=js, size=size, check=False)
    page = opened.page
    assert page.get_by_role("heading", name="is private").is_visible()
    looks_right(page)
    name = f"ada-{size[0]}-{js}"
    sign_in_at_provider(page, name)
    assert page.url == f"{site.url}/arenas/arena/vote"
    follow(page.get_by_role("button", name="Start voting"))
    seen_both(page)
    page.get_by_role("button", name="Tie").first.click()
    page.get_by_role("button", name="Next").first.wait_for()
    follow(page.get_by_role("link", name="Your sign-in"))
    assert page.get_by_text(f"signed in as {name}").is_visible()
    looks_right(page)
    follow(page.get_by_role("button", name="Sign out"))
    assert page.get_by_text("are signed out").is_visible()
    looks_right(page)
    there = page.get_by_role("link", name="Sign out of your organisation")
    assert there.get_attribute("href").startswith(provider.issuer)
    page.goto(f"{site.url}/arenas/arena/vote")
    assert page.get_by_role("heading", name="is private").is_visible()
    outside = [url for url in opened.elsewhere if not url.startswith(provider.issuer)]
    assert (outside, opened.refused, opened.errors) == ([], [], [])


@pytest.mark.slow(but="size1-dark")
@pytest.mark.parametrize(("size", "theme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_everybody_can_read_the_pages(visit, site, size, theme):
    for path in ("/arenas/arena", "/sign-in/0/account", "/sign-in/0/callback?state=x"):
        page = visit(path, size=size, theme=theme, check=False, bypass_csp=True).page
        readable(page)
