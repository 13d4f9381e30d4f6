"""Responses that name models are told of, a few by their rows and all by their number."""

import json
from pathlib import Path

import pytest

from support.live_arenas import make_arena
from tiltyard.arena.content.answer_import import ImportResult
from tiltyard.arena.content.answer_rows import CheckedAnswer, read_named_models
from tiltyard.arena.content.name_mentions import SHOWN_MENTION_LIMIT, MentionFinder
from tiltyard.arena.content.upload_review import preview_upload, store_upload
from tiltyard.cli.serve import _warn
from tiltyard.postgres.connections import open_pool

NAMES = ("argent-70b", "Argent-70B-instruct", "Ω-model", "gpt", "o1", "***", "La Plume 2")


def answer(text, model="oak", kind="text", where="line 1"):
    return CheckedAnswer(where, model, "p", "?", b"", None, None, kind, "text/plain", text.encode())


def said(text, model="oak", kind="text"):
    lookout = MentionFinder(NAMES)
    lookout.look(answer(text, model, kind))
    return [(one.name, one.own) for one in lookout.first]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I am ARGENT-70b.", "argent-70b"),
        ("(argent-70b-instruct)", "Argent-70B-instruct"),
        ("I am argent-70bis", None),
        ("sargent-70b", None),
        ("argent, 70b", None),
        ("says ω-MODEL", "Ω-model"),
        ("ask la plume 2!", "La Plume 2"),
        ("ask la plume 22", None),
        ("o1 and *** and egypt", None),
        ("x" * 1_100_000 + " gpt", None),
        ("", None),
    ],
)
def test_names_are_found_as_whole_words_in_any_case(text, name):
    assert said(text) == ([] if name is None else [(name, False)])


def test_its_own_name_is_told_before_others_and_only_texts_and_apps_are_read():
    assert said("gpt, argent-70b-instruct", model="gpt") == [("gpt", True)]
    assert said("<html>made by gpt", kind="app") == [("gpt", False)]
    assert said("gpt", kind="image") == []


def test_the_first_are_told_and_all_are_counted(capsys):
    lookout = MentionFinder(NAMES)
    rows = [answer("gpt", "gpt", where=f"line {k}") for k in range(SHOWN_MENTION_LIMIT + 5)]
    assert list(lookout.watching([answer("nothing"), *rows]))[1:] == rows
    assert (lookout.count, len(lookout.first)) == (SHOWN_MENTION_LIMIT + 5, SHOWN_MENTION_LIMIT)
    for brought in (ImportResult(), ImportResult(mentioned=lookout.count, mentions=tuple(lookout.first))):
        _warn(brought)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "Warning: line 0: says 'gpt', the name of its model: voters will read it."
    assert told[-1] == "Warning: 5 more responses do so too."
    assert len(told) == SHOWN_MENTION_LIMIT + 1


async def test_a_preview_tells_of_names_of_models_that_are_there_and_that_come(database):
    rows = [
        {"prompt_id": "new", "prompt": "Why?", "model": "oak", "response": "As Model-0 says"},
        {"prompt_id": "new", "prompt": "Why?", "model": "elm", "response": "I, Elm, know. Oak does not."},
        {"prompt_id": "new", "prompt": "Why?", "model": "ash", "response": "No idea"},
        {
            "prompt_id": "new",
            "prompt": "Why?",
            "model": "yew",
            "response": "Orchard says so",
            "maker": "Orchard",
        },
        {"prompt_id": "new", "prompt": "Why?", "model": "fir", "response": "I am ChatGPT."},
    ]

    arena = await make_arena(database, 2, 1)
    async with open_pool(database, most=2) as pool:
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        upload = await store_upload(pool, arena, "a", data, actor="a")
        preview = await preview_upload(pool, arena, upload, actor="a")
    assert (preview.good, preview.mentioned) == (5, 4)
    assert [(one.where, one.name, one.about) for one in preview.mentions] == [
        ("line 1", "model-0", "other"), ("line 2", "elm", "own"), ("line 4", "Orchard", "family"),
        ("line 5", "ChatGPT", "claim"),
    ]  # fmt: skip


def test_models_of_a_file_are_known_before_its_answers_are_read(tmp_path: Path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"model": "a"}\n{"model": "b", "response": "x"}\n{"model": 3}\n')
    assert read_named_models(path) == read_named_models(path, body=True) == {"a": set(), "b": set()}
