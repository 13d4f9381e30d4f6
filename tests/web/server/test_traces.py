"""Traces: sent to a receiver of OTLP over HTTP if one is named, and otherwise nothing."""

import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.live_arenas import made_arena
from support.served import served
from tiltyard.errors import MissingExtra
from tiltyard.foundation.telemetry import ENDPOINT_VARIABLE, describe_span, is_tracing, span, tracing
from tiltyard.postgres.connections import TracedCursor, connect, name_statement
from tiltyard.postgres.statements import bucket_statement, statements


@contextmanager
def receiver():
    """An endpoint, and the requests that it has received."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            received.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def spans_of(received):
    return [
        one
        for _, request in received
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for one in scope.spans
    ]


def attributes(one):
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in one.attributes}


def test_requests_batches_and_statements_are_sent(database):
    made_arena(database)
    with receiver() as (endpoint, received):
        with (
            tracing({ENDPOINT_VARIABLE: endpoint + "/", "OTEL_SERVICE_NAME": "yard"}, "web"),
            served(database) as site,
        ):
            client = site.client()
            matchup = client.post("/api/v1/arenas/arena/matchups").json()["matchup"]
            assert client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).status_code == 200
            with connect(database) as connection:
                connection.execute("SELECT 'hunter2'")
        assert {path for path, _ in received} == {"/v1/traces"}
        spans = spans_of(received)
    by_name = {}
    for one in spans:
        by_name.setdefault(one.name, []).append(one)
    assert {
        "POST next_matchup",
        "POST vote",
        "batch",
        "sql log_lock",
        "sql log_add_events",
        "sql SELECT",
    } <= set(by_name)
    assert attributes(by_name["POST vote"][0])["http.response.status_code"] == 200
    assert max(attributes(one).get("tiltyard.requests", 0) for one in by_name["batch"]) >= 1
    batches = {one.span_id for one in by_name["batch"]}
    assert {one.parent_span_id for one in by_name["sql log_lock"]} <= batches
    (resource, *_) = [request.resource_spans[0].resource for _, request in received]
    told = attributes(resource)
    assert (told["service.name"], told["tiltyard.part"]) == ("yard", "web")
    text = str([request for _, request in received])
    assert "hunter2" not in text
    assert matchup not in text


def test_without_an_endpoint_nothing_is_recorded_or_imported(database):
    with tracing({}, "web"):
        assert not is_tracing()
        with span("one") as nothing:
            describe_span("two", three=4)
        assert nothing is None
        with connect(database) as connection:
            assert not isinstance(connection.cursor(), TracedCursor)
    code = (
        "import sys; from tiltyard.foundation.telemetry import *\n"
        "with tracing({}, 'web'), span('x'): describe_span('y')\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_extra_is_named_if_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MissingExtra, match="otel"), tracing({ENDPOINT_VARIABLE: "http://127.0.0.1:9"}, "web"):
        pass
    assert not is_tracing()


@pytest.mark.parametrize(
    ("text", "name"),
    [("COMMIT", "sql COMMIT"), ("  select 1", "sql SELECT"), ("", "sql"), ("(SELECT 1)", "sql")],
)
def test_statements_without_a_name_are_called_by_their_first_word(text, name):
    assert name_statement(text) == name


def test_statements_of_a_bucket_keep_their_name():
    named = {name: name_statement(bucket_statement(name, 12345)) for name in statements()}
    assert named == {name: f"sql {name}" for name in statements()}
