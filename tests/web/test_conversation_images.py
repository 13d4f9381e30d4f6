"""Images in the messages of conversations: shown to voters without metadata, to operators as they came, gone when withdrawn."""

import base64
import re

import pytest

from support.media_files import png, png_chunk
from support.operating import signed
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from support.shown_kinds import fill_arena
from tiltyard.postgres.connections import connect

MODELS = ("zephyr-brush-9", "quokka-paint")
ASKED = png(png_chunk(b"tEXt", b"Software\0camera"))


def looked_at(model):
    """An image as a tool of this model gave it: the same pixels, and the model's name beside them."""
    return png(png_chunk(b"tEXt", b"Software\0" + model.encode()))


def answer(model):
    url = f"data:image/png;base64,{base64.b64encode(looked_at(model)).decode()}"
    question = [{"type": "text", "text": "What is it?"}, {"type": "image", "url": "asked.png"}]
    question.append({"type": "image_url", "image_url": {"url": "https://tracker.example/x.png"}})
    return {
        "prompt_id": "p",
        "model": model,
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "tool_calls": [{"name": "zoom", "arguments": "{}"}]},
            {"role": "tool", "name": "zoom", "content": [{"type": "image", "url": url}]},
            {"role": "assistant", "content": "A tree."},
        ],
    }


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    store = tmp_path_factory.mktemp("responses")
    with fresh_database(server, template) as database:
        fill_arena(database, store, "arena", [answer(model) for model in MODELS], {"asked.png": ASKED})
        make_operator(database)
        with served(database, folder=store) as running:
            yield running


def served_page(client):
    assert client.post("/arenas/arena/vote").status_code == 303
    page = client.get("/arenas/arena/vote").text
    return page, [one.replace("&amp;", "&") for one in re.findall(r'<img src="([^"]+)"', page)]


def test_a_voter_sees_the_images_and_nothing_that_their_files_say(site):
    client = site.client()
    page, urls = served_page(client)
    (matchup,) = set(re.findall(r'data-matchup="([^"]+)"', page))
    assert urls == [f"/m/{matchup}/{rest}" for rest in ("a?image=0", "a?image=1", "b?image=1")]
    assert "1 image is" in page
    assert "tracker.example" not in page
    answers = [client.get(url) for url in urls]
    assert {one.content for one in answers} == {png()}
    assert {one.headers["content-type"] for one in answers} == {"image/png"}
    assert {one.headers["cache-control"] for one in answers} == {"no-store"}
    assert not [name for name in MODELS for one in answers if name in f"{one.headers}{one.content}"]
    for number in ("2", "-1", "x", "", "0" * 4000, "²"):
        assert client.get(f"/m/{matchup}/a", params={"image": number}).status_code == 404
    transcript = client.get(f"/m/{matchup}/a").text
    assert "[image]" in transcript
    assert base64.b64encode(png()[:30]).decode() not in transcript
    assert site.client().get(urls[0]).status_code == 404, "another voter"
    client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie", "reveal": True})
    assert client.get(urls[0]).content == png()


def test_an_operator_sees_what_voters_see_and_gets_the_files_as_they_came(site):
    client = signed(site)
    preview = client.get("/operator/arenas/arena/preview").text
    assert preview.count("<img src=") == 3
    browsed = client.get("/operator/arenas/arena/prompts/view?prompt=p").text
    assert browsed.count("<img src=") == 4
    assert browsed.count("1 image is") == 2
    where = "/api/v1/arenas/arena/responses"
    query = {"model": MODELS[0], "prompt": "p", "image": "1"}
    assert client.get(where, params=query).content == looked_at(MODELS[0])
    assert client.get(where, params=query | {"image": "2"}).status_code == 404
    assert client.get(where, params=query | {"image": "-1"}).status_code == 422
    assert site.client().get(where, params=query).status_code == 401


def test_images_go_with_the_response_that_has_them(site):
    """It comes last: the arena has nothing to vote on afterwards."""
    voter, operator = site.client(), signed(site)
    _, urls = served_page(voter)
    form = {"prompt": "p", "model": MODELS[0], "reason": "copyright"}
    assert operator.post("/operator/arenas/arena/prompts/withdraw", data=form).status_code == 303
    assert [voter.get(url).status_code for url in urls] == [404] * 3
    with connect(site.database) as connection:
        kept = connection.execute("SELECT convert_from(bytes, 'UTF8') FROM contents").fetchall()
    spelled = base64.b64encode(looked_at(MODELS[0])).decode()
    assert not [text for (text,) in kept if spelled in text]
    assert base64.b64encode(looked_at(MODELS[1])).decode() in kept[0][0]
