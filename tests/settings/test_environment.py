"""The environment: which word goes first, where things are kept, and which key is sent where."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.tournament_texts import config_of
from tiltyard.errors import BadConfig, BadOption, MissingExtra
from tiltyard.settings.environment import read_environment


@pytest.fixture
def folders(tmp_path):
    here, beside = tmp_path / "here", tmp_path / "beside"
    here.mkdir()
    beside.mkdir()
    return here, beside


def test_real_variables_go_before_the_working_folder_and_that_before_the_configurations(folders):
    here, beside = folders
    (here / ".env").write_text("A=here\nB=here\n")
    (beside / ".env").write_text("A=beside\nB=beside\nC=beside\nEMPTY\n")
    found = read_environment(beside, working_folder=here, variables={"A": "real"}).variables
    assert (found["A"], found["B"], found["C"]) == ("real", "here", "beside")
    assert "EMPTY" not in found


def test_reading_changes_no_variable(folders, monkeypatch):
    here, beside = folders
    (here / ".env").write_text("TILTYARD_TEST_ONLY=1\nDATABASE_URL=postgresql://there/db\n")
    monkeypatch.chdir(here)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    environment = read_environment(beside)
    assert environment.variables["TILTYARD_TEST_ONLY"] == "1"
    assert environment.database_url == "postgresql://there/db"
    assert "TILTYARD_TEST_ONLY" not in os.environ


def test_an_empty_database_url_is_none(tmp_path):
    assert read_environment(working_folder=tmp_path, variables={"DATABASE_URL": ""}).database_url is None


@pytest.mark.parametrize(
    ("stated", "session", "expected"),
    [
        (None, None, (None, None)),
        ("postgresql://server", None, ("postgresql://server", None)),
        ("postgresql://server", "", ("postgresql://server", None)),
        ("postgresql://pooler", "postgresql://server", ("postgresql://server", "postgresql://pooler")),
        ("postgresql://server", "postgresql://server", ("postgresql://server", None)),
    ],
)
def test_with_an_address_for_sessions_the_other_is_a_pooler(tmp_path, stated, session, expected):
    variables = {"DATABASE_URL": stated, "TILTYARD_SESSION_DATABASE_URL": session}
    variables = {name: value for name, value in variables.items() if value is not None}
    environment = read_environment(working_folder=tmp_path, variables=variables)
    assert (environment.database_url, environment.pooler_url) == expected
    assert "postgresql" not in repr(environment)


def test_an_address_for_sessions_alone_is_refused(tmp_path):
    variables = {"TILTYARD_SESSION_DATABASE_URL": "postgresql://server"}
    with pytest.raises(BadOption, match="DATABASE_URL"):
        read_environment(working_folder=tmp_path, variables=variables)


def test_home_is_where_it_is_said_to_be(tmp_path, monkeypatch):
    def home(**variables: str) -> Path:
        return read_environment(working_folder=tmp_path, variables=variables).home

    monkeypatch.setenv("HOME", "/home/me")
    assert home() == Path("/home/me/.local/share/tiltyard")
    assert home(XDG_DATA_HOME="/data") == Path("/data/tiltyard")
    assert home(XDG_DATA_HOME="relative") == Path("/home/me/.local/share/tiltyard")
    assert home(TILTYARD_HOME="/t", XDG_DATA_HOME="/data") == Path("/t")
    assert home(TILTYARD_HOME="~/t") == Path("/home/me/t")
    assert home(TILTYARD_HOME="t") == tmp_path / "t"


def test_no_home_folder_is_said(tmp_path, monkeypatch):
    def lost(_self: Path) -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "expanduser", lost)
    with pytest.raises(BadOption, match="set TILTYARD_HOME"):
        read_environment(working_folder=tmp_path, variables={})


def judge(tmp_path, more):
    return config_of(tmp_path, f"modes: {{x: {{judges: [{{model: m, {more}}}]}}}}\n").mode("x").judges[0]


def test_a_missing_key_names_the_variable_and_the_file(tmp_path):
    environment = read_environment(working_folder=tmp_path, variables={"OPENAI_API_KEY": " "})
    for provider, name in (("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")):
        with pytest.raises(BadConfig) as caught:
            environment.api_key(judge(tmp_path, f"provider: {provider}"))
        assert f"set the variable {name}" in str(caught.value)
        assert ".env" in str(caught.value)


def test_a_key_is_sent_to_its_own_address_only(tmp_path):
    variables = {"OPENAI_API_KEY": "theirs", "MY_KEY": "mine\n"}
    environment = read_environment(working_folder=tmp_path, variables=variables)
    assert environment.api_key(judge(tmp_path, "provider: openai")) == "theirs"
    local = "provider: openai, base_url: 'http://localhost:1/v1'"
    assert environment.api_key(judge(tmp_path, local)) is None
    assert environment.api_key(judge(tmp_path, f"{local}, api_key_env: MY_KEY")) == "mine"
    assert environment.api_key(judge(tmp_path, "provider: replay, base_url: x.jsonl")) is None


def test_a_route_has_the_values_of_its_variables(tmp_path):
    more = "headers_env: {X-Key: MY_KEY}, query_env: {key: MY_KEY}, headers: {a: b}, path: /x"
    environment = read_environment(working_folder=tmp_path, variables={"MY_KEY": "very-secret\n"})
    route = environment.route(judge(tmp_path, more), asking=True)
    assert (route.secret_headers, route.secret_query) == ({"X-Key": "very-secret"}, {"key": "very-secret"})
    assert (route.headers, route.path) == ({"a": "b"}, "/x")
    assert "very-secret" not in repr(route)
    silent = environment.route(judge(tmp_path, more), asking=False)
    assert (silent.secret_headers, silent.secret_query, silent.identity) == ({}, {}, route.identity)


@pytest.mark.parametrize("value", ["", "one\ntwo", "schlüssel"])
def test_a_secret_that_is_missing_or_cannot_be_sent_names_its_variable(tmp_path, value):
    environment = read_environment(working_folder=tmp_path, variables={"MY_KEY": value})
    with pytest.raises(BadConfig, match="MY_KEY") as caught:
        environment.route(judge(tmp_path, "headers_env: {X-Key: MY_KEY}"), asking=True)
    assert not value or value not in str(caught.value)


def test_a_generator_has_its_key_alike(tmp_path):
    entrants = "entrants: [{entrant_id: a, generate: {provider: openai, model: x}}, {entrant_id: b}]\n"
    rest = "prompts: {bank_path: p}\nanswers: a\nrubrics: {factuality: }\n"
    generate = config_of(tmp_path, least=entrants + rest).entrants[0].generate
    assert generate is not None
    environment = read_environment(working_folder=tmp_path, variables={"OPENAI_API_KEY": "k"})
    assert environment.api_key(generate) == "k"


def test_keys_are_not_shown(tmp_path):
    variables = {"OPENAI_API_KEY": "very-secret", "DATABASE_URL": "postgresql://u:very-secret@h/d"}
    assert "very-secret" not in repr(read_environment(working_folder=tmp_path, variables=variables))


def test_an_unreadable_env_file_is_said(tmp_path):
    (tmp_path / ".env").write_bytes(b"A=\xff\n")
    with pytest.raises(BadConfig, match="read: not UTF-8"):
        read_environment(working_folder=tmp_path, variables={})


def test_without_the_extra_only_an_env_file_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dotenv", None)
    assert read_environment(working_folder=tmp_path, variables={"A": "1"}).variables["A"] == "1"
    (tmp_path / ".env").write_text("A=2\n")
    with pytest.raises(MissingExtra, match="judges"):
        read_environment(working_folder=tmp_path, variables={})
