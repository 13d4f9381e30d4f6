"""No import invents a model: what the columns of a table hold is asked, unless its headers are documented."""

import pytest

from support.media_files import png
from support.odd_files import MODELS, as_csv, as_jsonl, as_xlsx, long_table, odd_files, wide_table, zipped
from tiltyard.arena.content.answer_rows import BadRow, CheckedAnswer
from tiltyard.arena.content.upload_review import read_uploaded_file
from tiltyard.errors import BadOption
from tiltyard.files.answer_formats.answer_columns import ColumnChoice

pytestmark = pytest.mark.usefixtures("read_uploads_here")

MOST = 1 << 24


def read(data, name="answers.csv", choice=None):
    return read_uploaded_file(name, data, most=MOST, choice=choice)


def chosen(*words):
    return ColumnChoice.parsed(words)


def models(found):
    return sorted({one.model for one in found.rows if isinstance(one, CheckedAnswer)})


def uses(found):
    return {one.name: one.use for one in found.columns.columns}


@pytest.mark.parametrize(
    "headers",
    [
        ("question", "llm", "answer"),
        ("instruction", "bot", "reply"),
        ("prompt", "LLM", "response"),
        ("prompt", "assistant", "answer"),
        ("frage", "modell", "antwort"),
        ("x", "y", "z"),
    ],
)
@pytest.mark.parametrize("write", [as_csv, as_jsonl, as_xlsx, lambda rows: zipped({"a.csv": as_csv(rows)})])
def test_three_models_under_other_names_are_proposed_and_asked_for(headers, write):
    found = read(write(long_table(*headers)), "file")
    assert bool(found.columns and found.columns.asks)
    assert uses(found) == dict(zip(headers, ("prompt", "model", "response"), strict=True))
    assert (models(found), len(found.rows)) == (sorted(MODELS), 12)


def test_json_lines_need_no_ids_in_an_archive_either():
    data = as_jsonl(long_table("prompt", "model", "response"))
    for found in (read(data, "a.jsonl"), read(zipped({"a.jsonl": data}), "a.zip")):
        assert (bool(found.columns and found.columns.asks), models(found), len(found.rows)) == (
            False,
            sorted(MODELS),
            12,
        )


def test_no_odd_file_gives_a_model_without_a_question(capsys):
    """The documentation has the figures."""
    found = {name: read(data, name) for name, data in odd_files().items()}
    silent = [name for name, one in found.items() if not one.columns.asks]
    right = [name for name, one in found.items() if models(one) == sorted(MODELS)]
    with capsys.disabled():
        print(f"\n{len(found)} odd files: {len(silent)} silent, {len(right)} proposals right")
    assert silent == []
    assert len(found) >= 40
    assert len(right) >= 37, sorted(found.keys() - set(right))


def test_a_choice_reads_a_wide_table_and_names_an_only_model():
    wide = read(
        as_csv(wide_table("q", "a", "b", rater="Ada")),
        choice=chosen("prompt=q", "responses=a", "responses=b"),
    )
    assert (models(wide), wide.columns.asks, len(wide.rows)) == (["a", "b"], False, 8)
    one = read(
        as_csv(long_table("q", None, "r")[::3]),
        choice=ColumnChoice.parsed(["prompt=q", "response=r"], " ash "),
    )
    assert (models(one), len(one.rows)) == (["ash"], 4)


@pytest.mark.parametrize(
    "words",
    [
        ["prompt=col1"],
        ["prompt=col1", "response=col3"],
        ["prompt=col1", "response=col3", "model=nothing"],
        ["prompt=col1", "response=col3", "responses=col2"],
        ["prompt=col1", "response=col3", "model=col2", "model=col3"],
        ["film=col1"],
        ["col1"],
    ],
)
def test_a_choice_that_does_not_fit_says_why(words):
    data = as_csv(long_table("col1", "col2", "col3"))
    try:
        found = read(data, choice=chosen(*words))
    except BadOption:
        return
    assert found.columns.problem
    assert not found.rows


def test_rows_that_would_be_left_out_are_counted():
    rows = [
        *long_table("q", "m", "r"),
        {"q": "Why is the sky blue?", "m": "oak-1", "r": "Another."},
        {"q": "?", "m": "x"},
    ]
    found = read(as_csv(rows), choice=chosen("prompt=q", "model=m", "response=r"))
    assert sum(count for _, count in found.left_out) == 2
    assert len(found.rows) == 12


def test_a_broken_row_among_odd_headers_is_one_error():
    data = as_jsonl(long_table("frage", "llm", "antwort")) + b"{not json}\n"
    found = read(data, "a.jsonl", chosen("prompt=frage", "model=llm", "response=antwort"))
    assert [isinstance(one, BadRow) for one in found.rows] == [False] * 12 + [True]


def test_images_of_a_table_without_ids_stay_images():
    rows = [{"prompt": "Draw.", "model": name, "kind": "image", "response": "a.png"} for name in MODELS]
    found = read(zipped({"a.jsonl": as_jsonl(rows), "a.png": png()}), "a.zip")
    assert {one.kind for one in found.rows} == {"image"}
