"""An owner invites a moderator, who sets up a second factor, sees only its pages, and is out once it is removed."""

import base64
import re
import time

import pytest
from playwright.sync_api import expect

from support.browsing import SIZES, follow, sign_in
from tiltyard.arena.operators.second_factor import STEP_SECONDS, code_at
from tiltyard.postgres.connections import connect

SEEN = ["Overview", "Models", "Prompts", "Preview as a voter", "Voters", "Complaints", "Remarks", "Crowd", "Exclusions", "Exports and reports", "Shadow board", "Audit"]  # fmt: skip


def code_of(key):
    return code_at(key, int(time.time()) // STEP_SECONDS)


def invite(opened, role, name):
    page = opened.page
    page.goto(f"{opened.site}/operator/operators")
    page.get_by_label("For whom").fill(name)
    page.get_by_label("Role", exact=True).select_option(role)
    page.get_by_label("Arena", exact=True).select_option("arena")
    follow(page.get_by_role("button", name="Make a link"))
    link = page.locator("code[data-invitation]").inner_text()
    return opened.site + link[link.index("/claim/") :]


def join(opened, link, name):
    page = opened.page
    page.goto(link)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill("a password of Grace")
    follow(page.get_by_role("button", name=re.compile("Create your")))
    follow(page.get_by_role("link", name="Go to your arenas"))


def set_up_factor(opened, name):
    page = opened.page
    follow(page.get_by_role("link", name=name))
    follow(page.get_by_role("button", name="Set up a second factor"))
    key = base64.b32decode(page.locator("code[data-key]").inner_text().replace(" ", ""))
    page.get_by_label("Code").fill(code_of(key))
    follow(page.get_by_role("button", name="Turn it on"))
    expect(page.get_by_text("The second factor is on")).to_be_visible()
    return key, page.locator("code[data-recovery]").inner_text().split()


def sign_in_with_code(opened, name, code):
    page = opened.page
    page.goto(f"{opened.site}/operator/sign-in")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill("a password of Grace")
    follow(page.get_by_role("button", name="Sign in"))
    page.get_by_label("Code").fill(code)
    follow(page.get_by_role("button", name="Sign in"))
    expect(page.get_by_role("heading", name="Your arenas")).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_a_moderator_comes_works_and_goes(site, visit, size):
    site.context.access.actors.sign_in_throttle._seconds = 0
    name = f"Grace {size[0]}"
    owner, moderator = visit("/", js=False, size=size), visit("/", js=False, size=size)
    sign_in(owner)
    join(moderator, invite(owner, "moderator", name), name)
    key, codes = set_up_factor(moderator, name)
    follow(moderator.page.get_by_role("button", name="Sign out").first)
    with connect(site.database) as connection:
        connection.execute("UPDATE operators SET totp_step = 0")
    sign_in_with_code(moderator, name, code_of(key))
    page = moderator.page
    expect(page.get_by_role("heading", name="New arena")).to_have_count(0)
    follow(page.get_by_role("rowheader").get_by_role("link").first)
    if size[0] < 900:
        page.locator(".operator-menu > summary").click()
    menu = page.locator(".operator-pages:visible")
    assert menu.locator("a").all_text_contents() == SEEN
    refused = page.goto(f"{moderator.site}/operator/arenas/arena/settings")
    assert refused.status == 403
    expect(page.get_by_text("this needs the role operator in the arena arena")).to_be_visible()
    expect(page.get_by_text("An owner can grant it: Ada")).to_be_visible()
    page.goto(f"{moderator.site}/operator/arenas/arena")
    owner.page.goto(f"{owner.site}/operator/operators")
    follow(owner.page.get_by_role("link", name=name))
    follow(owner.page.get_by_role("link", name="Remove this operator…"))
    follow(owner.page.get_by_role("button", name="Remove"))
    expect(owner.page.get_by_text("The operator is removed.")).to_be_visible()
    if size[0] < 900:
        page.locator(".operator-menu > summary").click()
    menu = page.locator(".operator-pages:visible")
    menu.get_by_text("People", exact=True).click()
    follow(menu.get_by_role("link", name="Voters"))
    expect(page.get_by_label("Password")).to_be_visible()
    page.goto(f"{moderator.site}/operator/sign-in")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill("a password of Grace")
    follow(page.get_by_role("button", name="Sign in"))
    expect(page.get_by_text("name or password is wrong")).to_be_visible()
    assert len(codes) == 10
    owner.check()
    moderator.check()
