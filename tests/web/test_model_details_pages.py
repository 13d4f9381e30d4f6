"""Details of models on the operator's pages, on the board and on the pages of models; every change is in the audit."""

import re

import pytest

from support.operating import audited, located, signed
from support.shown_boards import PAGE
from tiltyard.web.pages.board_data import BoardPageCache

MODELS = "/operator/arenas/arena/models"
FORM = {
    "model": "model-1", "maker": "Orchard", "family": "plum", "licence": "MIT", "link": "https://example.org/m",
    "open_weights": "yes", "input_usd": "0.15", "output_usd": "",
}  # fmt: skip


def test_details_are_edited_shown_and_audited_with_before_and_after(running):
    client, reader = signed(running), running.client()
    located(client.post(f"{MODELS}/details", data=FORM), "described", "arenas", "arena", "models")
    changed = audited(running)[-1]
    assert "describe model" in str(changed)
    assert "'maker': [None, 'Orchard']" in str(changed)
    assert "output_usd" not in str(changed)
    page = reader.get("/arenas/arena/models/model-1", headers=PAGE).text
    assert 'href="https://example.org/m" rel="nofollow noopener' in page
    assert "Orchard" in page
    assert "per million tokens" not in page, "half a price is no price"
    shown = reader.get("/arenas/arena", headers=PAGE).text
    assert re.search(r"<bdi>Orchard</bdi> · <bdi>MIT</bdi>", shown)
    form = client.get(f"{MODELS}/details", params={"model": "model-1"}).text
    assert 'value="0.15"' in form
    located(client.post(f"{MODELS}/details", data=FORM), "unchanged", "arenas", "arena", "models")
    located(
        client.post(f"{MODELS}/details", data=FORM | {"maker": ""}), "described", "arenas", "arena", "models"
    )
    assert "'maker': ['Orchard', None]" in str(audited(running)[-1])
    assert "Orchard" not in reader.get("/arenas/arena", headers=PAGE).text


@pytest.mark.parametrize(
    ("field", "value"),
    [("link", "javascript:alert(1)"), ("input_usd", "-3"), ("open_weights", "x"), ("maker", "a\nb")],
)
def test_what_is_wrong_is_said_and_nothing_is_saved(running, field, value):
    client = signed(running)
    before = len(audited(running))
    answer = client.post(f"{MODELS}/details", data=FORM | {field: value})
    assert answer.status_code == 422
    assert field in answer.text
    assert len(audited(running)) == before


def test_a_file_is_imported_whole_or_not_at_all(running):
    client, reader = signed(running), running.client()

    def send(text):
        return client.post(f"{MODELS}/details-file", files={"file": ("m.csv", text.encode(), "text/csv")})

    wrong = send("model,maker\nmodel-0,Orchard\nnobody,Tern\n")
    assert wrong.status_code == 404
    assert "has no model" in wrong.text
    assert "Orchard" not in reader.get("/arenas/arena", headers=PAGE).text
    located(send("model,maker\nmodel-0,Orchard\nmodel-2,Tern\n"), "described", "arenas", "arena", "models")
    running.context.shared(BoardPageCache, BoardPageCache).details.pop(1)
    text = reader.get("/arenas/arena", headers=PAGE).text
    assert "Orchard" in text
    assert "Tern" in text
    assert [("describe model" in str(entry)) for entry in audited(running)[-2:]] == [True, True]


def test_a_published_board_does_not_change_with_what_is_said_later(running):
    client, reader = signed(running), running.client()
    sha256 = re.search(r"/boards/([0-9a-f]{64})", reader.get("/arenas/arena", headers=PAGE).text)[1]
    before = reader.get(f"/arenas/arena/boards/{sha256}", headers=PAGE).content
    client.post(f"{MODELS}/details", data=FORM)
    assert reader.get(f"/arenas/arena/boards/{sha256}", headers=PAGE).content == before
