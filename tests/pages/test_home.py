"""The front door, the theme, and problems as pages."""

import pytest

from support.browsing import follow


def test_a_theme_is_chosen_without_a_script_and_kept(visit):
    opened = visit("/", js=False, theme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    before = opened.page.evaluate(ground)
    follow(opened.page.get_by_role("button", name="Dark"))
    assert opened.page.evaluate(ground) != before
    opened.page.reload()
    assert opened.page.locator("html").get_attribute("data-theme") == "dark"
    follow(opened.page.get_by_role("button", name="System"))
    assert opened.page.evaluate(ground) == before


@pytest.mark.parametrize(
    "next_", ["//elsewhere.example/", "https://elsewhere.example", "/\\elsewhere.example", "x"]
)
def test_a_form_leads_nowhere_else(site, next_):
    answer = site.client().post("/theme", data={"theme": "dark", "next": next_})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_a_problem_is_a_page_for_people_and_a_document_for_programs(site, visit):
    opened = visit("/arenas/nowhere", check=False)
    assert opened.page.get_by_role("heading", level=1).inner_text() == "Page not found"
    client = site.client()
    assert client.get("/arenas/nowhere").headers["content-type"] == "application/problem+json"
    api = client.get("/api/v1/arenas/nowhere", headers={"accept": "text/html"})
    assert api.headers["content-type"] == "application/problem+json"
