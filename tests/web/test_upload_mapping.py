"""A table under other headers: its columns are asked for on the page, in the API and on the command line."""

import html
import re

import pytest

from support.odd_files import as_csv
from support.operating import signed, voted_database
from support.served import make_token

ROWS = [
    {"Frage": asked, "LLM": name, "Antwort": f"{name}: {asked}", "Note": str(k)}
    for k, asked in enumerate(("Warum?", "Wozu?", "Wer?"))
    for name in ("oak-1", "elm-2", "river-3")
]
UPLOADS = "/operator/arenas/arena/uploads"
WORDS = ["prompt=Frage", "model=LLM", "response=Antwort"]


@pytest.fixture(scope="module")
def prepared(server, template):
    with voted_database(server, template) as name:
        yield name


def uploaded(client, rows=ROWS):
    answer = client.post(UPLOADS, files={"file": ("antworten.csv", as_csv(rows))})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def selected(text):
    return [html.unescape(one) for one in re.findall(r'<option value="([^"]*)" selected', text)]


def models(client):
    return client.get("/operator/arenas/arena/models").text


def test_columns_are_proposed_confirmed_and_imported(running):
    client = signed(running)
    place = uploaded(client)
    asked = client.get(place).text
    assert selected(asked) == [*WORDS, "ignore=Note"]
    assert "let-in" not in asked
    answer = client.post(f"{place}/let-in", data={"expected": 9})
    assert answer.status_code == 409
    assert "oak-1" not in models(client)
    shown = client.get(place, params={"columns": WORDS}).text
    assert "let-in" in shown
    answer = client.post(f"{place}/let-in", params={"columns": WORDS}, data={"expected": 9})
    assert answer.status_code == 303, answer.text
    assert all(name in models(client) for name in ("oak-1", "elm-2", "river-3"))


def test_the_interface_asks_in_fields(running):
    client = running.client(token=make_token(running.database, "import"))
    url = "/api/v1/arenas/arena/responses"
    refused = client.post(url, content=as_csv(ROWS))
    assert refused.status_code == 422
    problem = refused.json()
    assert problem["type"].endswith("unclear-columns")
    assert problem["parameter"] == "columns"
    assert problem["columns"] == {"Frage": "prompt", "LLM": "model", "Antwort": "response", "Note": "ignore"}
    brought = client.post(url, content=as_csv(ROWS), params={"columns": WORDS})
    assert (brought.json()["models"], brought.json()["responses"]) == (3, 9)
    one = [{"Frage": row["Frage"], "Antwort": row["Antwort"]} for row in ROWS[::3]]
    stated = {"columns": ["prompt=Frage", "response=Antwort"]}
    assert client.post(url, content=as_csv(one), params=stated).json()["type"].endswith("unclear-columns")
    assert client.post(url, content=as_csv(one), params=stated | {"only_model": "ash"}).json()["models"] == 1
    holes = [*one, one[0] | {"Antwort": ""}]
    stated["only_model"] = "ash"
    assert "partly" in client.post(url, content=as_csv(holes), params=stated).json()["detail"]
    assert client.post(url, content=as_csv(holes), params=stated | {"partly": True}).status_code == 200
