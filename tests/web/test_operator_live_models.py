"""Models of a live arena that an operator adds, tests, pauses and removes in a browser; an LLM server answers."""

import html

import pytest

from support.faulty_upstream import faulty_upstream
from support.live_sites import add_live_arena, served_models
from support.operating import audited, located
from support.postgres_servers import fresh_database
from support.role_operators import sign_in_with_role
from tiltyard.arena.live.live_arena import NewEntrant, sync_entrants
from tiltyard.arena.live.live_store import list_entrants
from tiltyard.postgres.connections import connect

LIVE = "/operator/arenas/arena/live"
MODELS = ["heron", "plover"]
WREN = {"name": "Wren", "endpoint": "0", "model": "wren", "input": "1", "output": "2"}


@pytest.fixture(scope="module")
def upstream():
    with faulty_upstream() as made:
        yield made


@pytest.fixture
def site(server, template, upstream):
    with fresh_database(server, template) as database:
        add_live_arena(database, upstream, MODELS)
        with served_models(database) as found:
            yield found


def operator(site, arena=None, role="operator"):
    return sign_in_with_role(site, f"{role} of {arena}", role, arena)


def calls(upstream):
    return sum(upstream.tally()["calls"].values())


def spent(site):
    with connect(site.database) as connection:
        return connection.execute("SELECT coalesce(sum(counted), 0) FROM live_spending").fetchone()[0]


def entrants(site):
    found = site.run(list_entrants(site.registry.pool, 1))
    return {one.name: one for one in found}


def resting(site):
    pool = site.run(site.registry.live_battles("arena")).entrants
    pool._read_at = None
    site.run(pool.refresh())
    return list(pool.resting())


def test_a_model_is_reviewed_tested_and_added(site, upstream):
    client, before = operator(site), calls(upstream)
    assert "Add a model" in client.get(LIVE).text
    form = client.get(f"{LIVE}/model").text
    assert "OPENAI_API_KEY" in form
    assert f"{upstream.base_url}, like model-0" in form
    review = client.post(f"{LIVE}/model", data=WREN | {"act": "review"}).text
    assert "costs at most $0." in review
    assert (calls(upstream), spent(site), audited(site)) == (before, 0, [])
    tested = client.post(f"{LIVE}/model", data=WREN | {"act": "test"}).text
    assert "Answered in" in tested
    assert calls(upstream) == before + 1
    cost = spent(site)
    assert 0 < cost < 1_000, "what the answer cost, not what was reserved"
    located(
        client.post(f"{LIVE}/model", data=WREN | {"act": "add"}), "model-added", "arenas", "arena", "live"
    )
    assert [(action, detail.get("model"), detail.get("added")) for _, action, detail in audited(site)] == [
        ("test model", "Wren", None),
        ("change entrants", None, ["Wren"]),
    ]
    assert "Wren" in client.get(LIVE).text
    assert entrants(site)["Wren"].section["base_url"] == upstream.base_url
    assert resting(site) == []
    assert "Answered in" in client.post(f"{LIVE}/model", data={"known": "Wren", "act": "test"}).text


def test_a_file_of_models_leaves_those_of_the_browser(site, upstream):
    operator(site).post(f"{LIVE}/model", data=WREN | {"act": "add"})
    heron = NewEntrant("model-0", "version-0", {}, {})
    registry = site.registry
    changes = site.run(sync_entrants(registry.pool, registry.blobs, "arena", [heron]))
    assert (changes.added, changes.retired) == ((), ("model-1",))


@pytest.mark.parametrize(
    ("fault", "told"), [("401", "key was refused"), ("404", "does not exist"), ("refuse", "No answer after")]
)
def test_a_model_that_does_not_answer_says_why(site, upstream, fault, told):
    upstream.script("wren", fault=fault)
    page = operator(site).post(f"{LIVE}/model", data=WREN | {"act": "test"}).text
    upstream.script("wren")
    assert told in html.unescape(page)
    assert "Telltale" not in page
    (entry,) = audited(site)
    assert entry[2]["problem"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"name": ""}, "name: expected"),
        ({"name": "a\nb"}, "name: expected"),
        ({"model": " "}, "model: expected"),
        ({"input": "much"}, "price.input"),
        ({"endpoint": "7"}, "where the model is served"),
        ({"endpoint": "openai"}, "OPENAI_API_KEY"),
    ],
)
def test_a_form_with_a_mistake_comes_back(site, upstream, changed, told):
    client, before = operator(site), calls(upstream)
    for act in ("review", "test", "add"):
        answer = client.post(f"{LIVE}/model", data=WREN | changed | {"act": act})
        assert answer.status_code == 422
        assert told in html.unescape(answer.text)
    assert set(entrants(site)) == {"model-0", "model-1"}
    assert calls(upstream) == before


def test_a_budget_holds_for_tests(site, upstream):
    client, before = operator(site), calls(upstream)
    client.post("/operator/arenas/arena/settings", data={"live_budget_dollars": "0.000001"})
    answer = client.post(f"{LIVE}/model", data=WREN | {"act": "test"})
    assert (answer.status_code, calls(upstream), spent(site)) == (422, before, 0)


def test_a_paused_model_rests_until_it_is_resumed(site):
    client = operator(site)
    for form, said, rests in (
        ({"paused": "1"}, "paused", [1]),
        ({"paused": "1"}, "unchanged", [1]),
        ({}, "resumed", []),
    ):
        located(
            client.post(f"{LIVE}/pause", data={"model": "model-1"} | form), said, "arenas", "arena", "live"
        )
        assert resting(site) == rests
    assert [entry[1] for entry in audited(site)] == ["pause model", "resume model"]
    assert client.post(f"{LIVE}/pause", data={"model": "none"}).status_code == 404


def test_a_removed_model_can_be_brought_back(site):
    client = operator(site)
    for act, rests in (("retire", [1]), ("enable", [])):
        client.post(f"/operator/arenas/arena/models/{act}", data={"model": "model-1"})
        assert resting(site) == rests
        assert (">removed<" in client.get(LIVE).text) == bool(rests)


def test_an_arenas_operator_names_only_places_that_the_arena_has(site):
    """The keys of providers are the installation's; and nobody names an address or a variable in a form."""
    client = operator(site, "arena")
    assert "OPENAI_API_KEY" not in client.get(f"{LIVE}/model").text
    refused = client.post(f"{LIVE}/model", data=WREN | {"endpoint": "openai", "act": "review"})
    assert refused.status_code == 422
    more = {"base_url": "http://192.0.2.1", "api_key_env": "TILTYARD_DATABASE", "act": "add"}
    client.post(f"{LIVE}/model", data=WREN | more)
    section = entrants(site)["Wren"].section
    assert (section["base_url"], section.get("api_key_env")) == (
        entrants(site)["model-0"].section["base_url"],
        None,
    )


def test_whoever_only_reads_changes_nothing(site, upstream):
    client, before = operator(site, "arena", "moderator"), calls(upstream)
    page = client.get(LIVE).text
    assert "Add a model" not in page
    assert "Pause" not in page
    assert client.get(f"{LIVE}/model").status_code == 403
    for path, form in (("model", WREN | {"act": "test"}), ("pause", {"model": "model-1", "paused": "1"})):
        assert client.post(f"{LIVE}/{path}", data=form).status_code == 403
    assert calls(upstream) == before
    assert {entry[1] for entry in audited(site)} == {"change role"}
