"""Server-sent events, wherever their bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.judges.providers.server_events import EventParser, OversizedStream, ServerEvent

EVENTS = [ServerEvent("", b"1"), ServerEvent("a", b"2\n3"), ServerEvent("", b"{}")]


@given(
    st.sampled_from(["\n", "\r", "\r\n"]),
    st.lists(st.integers(0, 60)),
    st.booleans(),
)
def test_events_do_not_depend_on_where_chunks_end(newline, cuts, ended):
    lines = [
        ": comment",
        "data: 1",
        "",
        "id: 7",
        "event: a",
        "data: 2",
        "data:3",
        "",
        "retry: 5",
        "",
        "data: {}",
    ]
    text = ("\ufeff" + newline.join([*lines, "", ""] if ended else lines)).encode()
    parser, found, places = EventParser(), [], [0, *sorted(cuts), len(text)]
    for start, end in pairwise(places):
        found += parser.feed(text[start:end])
    assert found + parser.close() == EVENTS


def test_events_have_limits():
    with pytest.raises(OversizedStream, match="line"):
        EventParser(10).feed(b"data: 1234567890\n")
    with pytest.raises(OversizedStream, match="line"):
        EventParser(10).feed(b"data: 1234567890")
    with pytest.raises(OversizedStream, match="event"):
        EventParser(10).feed(b"data: 1234\n" * 3)
    parser = EventParser(10, 20)
    parser.feed(b"data: 12\n\n")
    with pytest.raises(OversizedStream, match="more than 20"):
        parser.feed(b"data: 12\n\n\n")
