"""What operators say about models: links that are only links, prices that are never made up, files that are all or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena.content.model_details import DETAIL_FIELDS, ModelDetails, parse_details_file
from tiltyard.errors import InputError


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)", "JAVASCRIPT:alert(1)", "data:text/html,x", "//example.org", "example.org", "https://",
        "https:///path", "ftp://example.org", "https://user:secret@example.org", "https://user@example.org",
        "https://exa mple.org", "https://example.org/\u202e", "https://example.org/\nx", "https://[::1", "\x00https://a.b",
        "https:\\\\example.org", "https://example.org/\\x", " javascript:alert(1)//https://", "https://a.b/" + "x" * 500,
    ],
)  # fmt: skip
def test_what_is_no_plain_address_is_no_link(link):
    with pytest.raises(InputError, match="such as https://"):
        ModelDetails().changed({"link": link})


@pytest.mark.parametrize(
    "link", ["https://example.org", "http://example.org:8080/a?b=c#d", "HTTPS://example.org/x"]
)
def test_an_address_is_kept(link):
    assert ModelDetails().changed({"link": link}).link == link[:5].lower() + link[5:]


@given(st.text())
def test_a_link_that_is_accepted_begins_with_http(text):
    try:
        link = ModelDetails().changed({"link": text}).link
    except InputError:
        return
    assert link is None or link.startswith(("http://", "https://"))


@pytest.mark.parametrize("price", ["-1", "nan", "inf", "1e9", "free", "$3", "1,5", "0x10"])
def test_what_is_no_price_is_refused(price):
    with pytest.raises(InputError, match="output_usd"):
        ModelDetails().changed({"output_usd": price})


def test_a_missing_price_is_unknown_and_a_price_of_zero_is_zero():
    unknown = ModelDetails().changed({"input_usd": " ", "output_usd": "0"})
    assert (unknown.input_usd, unknown.output_usd, unknown.priced) == (None, 0.0, False)
    assert unknown.changed({"input_usd": "0"}).priced


def test_details_as_text_are_read_back():
    details = ModelDetails("Orchard", "plum", "MIT", "https://example.org", True, 0.15, 1e-3)
    assert ModelDetails().changed(details.texts()) == details
    assert details.changed(dict.fromkeys(DETAIL_FIELDS, "")) == ModelDetails()


def test_a_file_names_models_and_some_of_their_fields():
    data = '\ufeffmodel,maker,open_weights\r\nplum-3,"Orchard, Inc.",yes\r\ntern,,\r\n'.encode()
    assert parse_details_file(data) == {
        "plum-3": {"maker": "Orchard, Inc.", "open_weights": "yes"},
        "tern": {"maker": "", "open_weights": ""},
    }


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "the first line must name each column once, with model"),
        (b"model,maker\n", "names no models"),
        (b"maker\nx\n", "with model; expected columns among model, maker"),
        (b"model,colour\na,b\n", "the column 'colour' is unknown"),
        (b"model,maker,maker\na,b,c\n", "each column once"),
        (b"model,maker\na\n", "line 2: it has another number of cells"),
        (b"model,maker\na,b,c\n", "line 2: it has another number of cells"),
        (b"model,maker\na,b\na,c\n", "line 3: the model is named twice"),
        (b"model,maker\n,b\n", "line 2: the model is missing"),
        (b"model,link\na,javascript:alert(1)\n", "line 2: link is 'javascript:alert"),
        (b"model,open_weights\na,perhaps\n", "line 2: open_weights is 'perhaps'; expected yes, no or nothing"),
        (b'model,maker\n"a,b\n', "this is not CSV"),
        (b"model,maker\n\xff,b\n", "the file is not UTF-8 at byte 12"),
        (b"\x00\x00", "expected columns among"),
        ("model,maker\na,\u202eevil\n".encode(), "line 2: maker is"),
    ],
)  # fmt: skip
def test_a_wrong_file_says_where_and_what(data, told):
    with pytest.raises(InputError) as error:
        parse_details_file(data)
    assert told in str(error.value)
