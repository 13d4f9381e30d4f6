"""Array literals: what goes in comes out, whatever the text."""

import json
from datetime import UTC, datetime
from uuid import UUID, uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiltyard.arena.log.array_literals import array_literal
from tiltyard.postgres.connections import connect

TEXTS = st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))))
INTS = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1))
FLOATS = st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False))


@given(texts=TEXTS, ints=INTS, floats=FLOATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_values_survive(server, texts, ints, floats):
    with connect(server) as connection:
        row = connection.execute(
            "SELECT %s::text[], %s::bigint[], %s::double precision[]",
            [array_literal(each) for each in (texts, ints, floats)],
        ).fetchone()
    assert row == (texts, ints, floats)


def test_ids_moments_and_documents_survive(server):
    ids, moments = [uuid4(), None, UUID(int=0)], [datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), None]
    documents = [{"a": 'quote " and \\ and {brace}, comma', "b": [1, None, "é\n"]}, None]
    with connect(server) as connection:
        row = connection.execute(
            "SELECT %s::uuid[], %s::timestamptz[], %s::jsonb[]",
            [array_literal(each) for each in (ids, moments, documents)],
        ).fetchone()
    assert row[0] == ids
    assert row[1] == moments
    assert [one if one is None else json.loads(json.dumps(one)) for one in row[2]] == documents
