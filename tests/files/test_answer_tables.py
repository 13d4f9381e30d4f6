"""Answers in tables: one row for each answer, or one column for each model; CSV, Excel, Parquet, Arrow, JSON."""

from __future__ import annotations

import json
import shutil
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.format_samples import FIXTURES, as_json_lines
from support.log_archives import LOG, log, log_members, write_zip
from tiltyard.core.judging.conversation import ContentPart, Message
from tiltyard.errors import InputError, UnreadableFile
from tiltyard.files import xlsx_records
from tiltyard.files.answer import Answer, AnswerUsage
from tiltyard.files.answer_formats.answer_tables import read_score
from tiltyard.files.answers import open_answers, read_answers
from tiltyard.files.judgments import prompt_id

ANSWERS = FIXTURES / "answers"
RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = f'<Relationships><Relationship Id="r1" Type="{RELATION}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
WORKBOOK = f'<workbook xmlns:r="{RELATION}"><sheets><sheet name="A" r:id="r2"/><sheet name="B" r:id="r1"/></sheets></workbook>'
RELATIONS = (
    f'<Relationships><Relationship Id="r2" Type="{RELATION}/worksheet" Target="worksheets/first.xml"/>'
    f'<Relationship Id="r1" Type="{RELATION}/worksheet" Target="worksheets/other.xml"/></Relationships>'
)
STYLES = '<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>'
STRINGS = (
    "<sst><si><t>Prompt</t></si><si><t>oak</t></si><si><r><t xml:space='preserve'>Name </t></r><r><t>a tree.</t></r>"
    "<rPh><t>reading</t></rPh></si><si><t>An_x000D_\noak &amp; more</t></si></sst>"
)
SHEET = (
    '<x:worksheet xmlns:x="m"><x:sheetData>'
    '<x:row r="1"><x:c r="A1" t="s"><x:v>0</x:v></x:c><x:c t="s"><x:v>1</x:v></x:c>'
    '<x:c r="D1" t="inlineStr"><x:is><x:t>elm</x:t></x:is></x:c></x:row>'
    '<x:row r="3"><x:c r="A3" t="s"><x:v>2</x:v></x:c><x:c r="B3" t="s"><x:v>3</x:v></x:c>'
    '<x:c r="C3"><x:v>unnamed</x:v></x:c><x:c r="D3" t="str"><x:f>A1</x:f><x:v>An elm.</x:v></x:c></x:row>'
    '<x:row><x:c r="A4" t="str"><x:v>Add.</x:v></x:c><x:c r="B4"><x:v>42</x:v></x:c>'
    '<x:c r="D4" t="e"><x:v>#N/A</x:v></x:c></x:row>'
    '<x:row r="5"><x:c r="A5"><x:v>1.5</x:v></x:c><x:c r="B5" t="b"><x:v>1</x:v></x:c><x:c r="D5" s="1"><x:v>45296</x:v></x:c></x:row>'
    '<x:row r="6"/></x:sheetData></x:worksheet>'
)


def workbook(path: Path, **changes: str) -> Path:
    members = {
        "_rels/.rels": PACKAGE,
        "xl/workbook.xml": WORKBOOK,
        "xl/_rels/workbook.xml.rels": RELATIONS,
        "xl/styles.xml": STYLES,
        "xl/sharedStrings.xml": STRINGS,
        "xl/worksheets/first.xml": SHEET,
    }
    for name, text in changes.items():
        members[next(member for member in members if name in member)] = text
    given = {name: text.encode() for name, text in members.items() if text}
    return write_zip(path, given, method=zipfile.ZIP_DEFLATED)


def saved(folder: Path, rows: list[dict], *, files: int = 2) -> Path:
    """A data set as ``save_to_disk`` of Hugging Face writes it."""
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist(rows)
    names = [f"data-{k:05}-of-{files:05}.arrow" for k in range(files)]
    for k, name in enumerate(names):
        part = table.slice(k * len(rows) // files, (k + 1) * len(rows) // files - k * len(rows) // files)
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(part)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def test_a_column_for_each_model() -> None:
    source = open_answers(ANSWERS / "model_columns.csv")
    assert source.format == "model-columns"
    oak, elm, river = source.answers()
    assert oak == Answer(
        prompt_id="1", prompt="Name a tree.", model="oak-1", response="An oak.", category="nature", gold="any"
    )
    assert (elm.model, elm.response) == ("elm, large", "An elm,\nof course.")
    assert (river.prompt_id, river.category, river.gold) == ("2", None, None)
    assert source.notes == (("has neither a response nor a score", 1),)


def test_a_workbook(tmp_path) -> None:
    source = open_answers(workbook(tmp_path / "answers.xlsx"))
    found = [(one.prompt, one.model, one.response) for one in source.answers()]
    assert found == [
        ("Name a tree.", "oak", "An\r\noak & more"),
        ("Name a tree.", "elm", "An elm."),
        ("Add.", "oak", "42"),
        ("1.5", "oak", "true"),
        ("1.5", "elm", "2024-01-05"),
    ]
    assert (source.format, source.notes) == ("model-columns", (("has neither a response nor a score", 1),))


@pytest.mark.parametrize(
    "change",
    [
        {"first": "<a><b></a>"},
        {"first": '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'},
        {"first": SHEET.replace("<x:v>3<", "<x:v>33<")},
        {"first": SHEET.replace(">elm<", ">oak<")},
        {"workbook.xml.rels": RELATIONS.replace("first", "second")},
        {"_rels/.rels": ""},
    ],
)
def test_broken_workbooks(change: dict, tmp_path) -> None:
    with pytest.raises(InputError) as refused:
        list(read_answers(workbook(tmp_path / "answers.xlsx", **change)))
    assert "answers.xlsx" in str(refused.value)


def test_a_sheet_with_too_many_cells(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(xlsx_records, "SHEET_CELLS", 19)
    with pytest.raises(UnreadableFile):
        list(read_answers(workbook(tmp_path / "answers.xlsx")))
    monkeypatch.setattr(xlsx_records, "SHEET_CELLS", 20)
    assert len(list(read_answers(workbook(tmp_path / "answers.xlsx")))) == 5


@pytest.mark.parametrize("place", ["XFD1048576", "A1048576", "A4294967290", "ZZZ9999999"])
def test_a_cell_far_away_is_not_made_room_for(place: str, tmp_path) -> None:
    far = SHEET.replace("</x:sheetData>", f'<x:row><x:c r="{place}"><x:v>1</x:v></x:c></x:row></x:sheetData>')
    path = workbook(tmp_path / "answers.xlsx", first=far)
    # Its columns are four.
    if place == "A1048576":
        assert len(list(read_answers(path))) == 5
    else:
        with pytest.raises(UnreadableFile):
            list(read_answers(path))


def test_a_number_of_texts_is_not_believed(tmp_path) -> None:
    for count in ("999999999999", "99999999999999999999"):
        with pytest.raises(UnreadableFile):
            list(
                read_answers(
                    workbook(
                        tmp_path / "answers.xlsx",
                        sharedStrings=STRINGS.replace("<sst", f'<sst uniqueCount="{count}"'),
                    )
                )
            )


def test_outputs_of_alpaca_eval() -> None:
    source = open_answers(ANSWERS / "elm-2/model_outputs.json")
    first, second, again = source.answers()
    assert source.format == "alpaca-eval"
    assert first == Answer(
        prompt_id=prompt_id("Name a tree."),
        prompt="Name a tree.",
        model="elm-2-verbose",
        response="An elm 🌳.",
        category="helpful_base",
    )
    assert (second.prompt, second.response) == ("Translate.\n\nBaum", "tree")
    assert (again.prompt_id, again.repeat) == (first.prompt_id, 1)
    assert source.notes == (("has neither a response nor a score", 1),)


def test_a_file_without_a_model_is_named_for_it(tmp_path) -> None:
    rows = [{"instruction": "Name a tree.", "output": "An ash."}]
    (tmp_path / "ash-1").mkdir()
    for path in (tmp_path / "ash-1/model_outputs.json", tmp_path / "ash-2.json"):
        path.write_text(json.dumps(rows))
    models = [next(read_answers(path)).model for path in sorted(tmp_path.rglob("*.json"))]
    assert models == ["ash-1", "ash-2"]
    assert next(read_answers(FIXTURES / "autoarena_responses.csv")).model == "autoarena_responses"


def test_answers_of_arena_hard_and_mt_bench() -> None:
    source = open_answers(FIXTURES / "arena_hard/model_answer/oak.jsonl")
    first, second = source.answers()
    assert (source.format, first.category, first.usage) == (
        "model-answers",
        "hard_prompt",
        AnswerUsage(output_tokens=4),
    )
    assert (second.prompt, second.response, second.system) == ("Write a line.", "A line.", "Be brief.")
    source = open_answers(ANSWERS / "mt_bench/model_answer/oak.jsonl")
    talk, plain = source.answers()
    assert (talk.prompt_id, talk.prompt, talk.response) == ("81", "Now rhyme.", "Fine.")
    assert talk.messages == (
        Message("user", (ContentPart("Write a line."),)),
        Message("assistant", (ContentPart("A line."),)),
        Message("user", (ContentPart("Now rhyme."),)),
    )
    assert (plain.prompt, plain.response, plain.messages) == ("Name a tree.", "An oak.", ())
    assert dict(source.notes) == {
        "has more responses; only the first is read": 1,
        "has neither a response nor a score": 1,
    }


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"uid": None, "model": "m", "messages": []}, "uid is missing"),
        (
            {"uid": "u", "model": 7, "messages": [{"role": "user"}, {"role": "ai", "content": "x"}]},
            "model is missing",
        ),
        ({"uid": "u", "model": "m", "messages": [{"role": "ai", "content": "x"}]}, "no message of the user"),
        ({"question_id": 1, "model_id": "m", "choices": []}, "only the answer is in this file"),
    ],
)
def test_broken_answers_of_arena_hard(row: dict, message: str, tmp_path) -> None:
    with pytest.raises(UnreadableFile, match=message):
        list(read_answers(as_json_lines([row], tmp_path / "oak.jsonl")))


@pytest.mark.parametrize("row", [{"text": "x"}, {"uid": "u"}])
def test_broken_questions(row: dict, tmp_path) -> None:
    shutil.copytree(ANSWERS / "mt_bench", tmp_path / "bench")
    as_json_lines([row, row], tmp_path / "bench/question.jsonl")
    with pytest.raises(UnreadableFile, match=r"uid is missing|duplicate question"):
        list(read_answers(tmp_path / "bench/model_answer/oak.jsonl"))


ROWS = [
    {"question": "Name a tree.", "model_name": "oak", "answer": ["An oak.", "Oaks."], "score": 0.5, "id": 1},
    {"question": "Name a tree.", "model_name": "elm", "answer": ["An elm."], "score": None, "id": 2},
]


def test_data_sets(tmp_path) -> None:
    """The same table as a saved data set, with splits, and as Parquet."""
    folder = saved(tmp_path / "plain", ROWS)
    split = saved(tmp_path / "dict/train", ROWS, files=1).parent
    (split / "dataset_dict.json").write_text('{"splits": ["train"]}')
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "data.parquet")
    (tmp_path / "hub/data").mkdir(parents=True)
    shutil.copy(tmp_path / "data.parquet", tmp_path / "hub/data/train-00000-of-00001.parquet")
    (tmp_path / "hub/README.md").write_text("# A data set")
    for path in (folder, split, tmp_path / "data.parquet", tmp_path / "hub"):
        source = open_answers(path)
        found = [(one.model, one.response, one.repeat, dict(one.scores)) for one in source.answers()]
        assert found == [
            ("oak", "An oak.", 0, {"score": 0.5}),
            ("oak", "Oaks.", 1, {"score": 0.5}),
            ("elm", "An elm.", 0, {}),
        ]
        assert source.notes == (("has a metric without a value", 1),)


def test_values_that_json_lacks_are_text(tmp_path) -> None:
    rows = [{"prompt": "When?", "oak": datetime(2026, 8, 1, tzinfo=UTC), "elm": b"bytes", "ash": {"a": 1}}]
    found = {one.model: one.response for one in read_answers(saved(tmp_path / "plain", rows, files=1))}
    assert found == {"oak": '"2026-08-01 00:00:00+00:00"', "elm": "\"b'bytes'\"", "ash": '{"a": 1}'}


def test_data_sets_that_cannot_be_read(tmp_path) -> None:
    several = tmp_path / "several"
    several.mkdir()
    (several / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(UnreadableFile, match="splits train, test"):
        list(read_answers(several))
    folder = saved(tmp_path / "plain", ROWS)
    for text, message in (
        ("[]", "lists no files"),
        ("{", "state.json"),
        ("[" * 100_000, "lists no files|state"),
    ):
        (folder / "state.json").write_text(text)
        with pytest.raises(UnreadableFile, match=message):
            list(read_answers(folder))


def test_conversations_in_a_data_set(tmp_path) -> None:
    chat = [
        {"from": "human", "value": "One?"},
        {"from": "gpt", "value": "Yes."},
        {"from": "human", "value": "Two?"},
        {"from": "gpt", "value": "No."},
    ]
    rows = [{"conversations": chat}, {"conversations": json.dumps(chat[:2])}, {"conversations": chat[:1]}]
    source = open_answers(as_json_lines(rows, tmp_path / "oak.jsonl"))
    long, short = source.answers()
    assert (long.model, long.prompt, long.response, len(long.messages)) == ("oak", "Two?", "No.", 3)
    assert (short.prompt, short.response, short.messages) == ("One?", "Yes.", ())
    assert source.notes == (("has neither a response nor a score", 1),)


def test_folders_of_logs(tmp_path) -> None:
    other = log()
    other["eval"]["task"] = "rivers"
    write_zip(tmp_path / "a.eval", log_members(log()))
    write_zip(tmp_path / "b.eval", log_members(other))
    source = open_answers(tmp_path)
    assert {one.category for one in source.answers()} == {"trees", "rivers"}
    assert dict(source.notes)["failed or was cancelled"] == 2


def test_folders_without_answers(tmp_path) -> None:
    with pytest.raises(UnreadableFile, match="files of answers"):
        list(read_answers(tmp_path))
    shutil.copy(ANSWERS / "mt_bench/question.jsonl", tmp_path / "a.jsonl")
    shutil.copy(ANSWERS / "samples_choices.jsonl", tmp_path / "b.jsonl")
    with pytest.raises(UnreadableFile, match="have different formats"):
        list(read_answers(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prompt,model,response\n,oak,x\n", "line 2: prompt is missing; expected a prompt"),
        ("prompt,model,response\nWhy?,,x\n", "line 2: model is missing; expected the name of a model"),
        ("prompt_id,model_a,model_b,winner,prompt\n1,a,b,tie,x\n", "line 2: model is missing"),
        ("size,colour\n1,red\n", "line 2: prompt_id is missing"),
    ],
)
def test_broken_tables(text: str, message: str, tmp_path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(text)
    with pytest.raises(UnreadableFile, match=message):
        list(read_answers(path))


def test_our_own_table_may_have_columns_of_scores(tmp_path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("prompt,model,response,scores.acc\nWhy?,oak,So.,0.5\nHow?,oak,So.,high\n")
    assert [dict(one.scores) for one in read_answers(path)] == [{"acc": 0.5}, {}]


def test_a_table_with_all_our_fields_may_have_columns_of_scores(tmp_path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(
        "prompt_id,prompt,model,response,score,f1\np,Why?,oak,So.,C,50 %\nq,How?,oak,So.,n/a,B+\n"
    )
    source = open_answers(path)
    assert [dict(one.scores) for one in source.answers()] == [{"score": 1.0, "f1": 0.5}, {}]
    assert dict(source.notes) == {
        "has a metric without a value": 1,
        "has a metric that is not one number, such as 'B+'": 1,
    }


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        *((word, 1.0) for word in ("C", "True", "pass", "YES", "1", 1, True, "100 %", "1,0")),
        *((word, 0.0) for word in ("I", "false", "Failed", "no", "0", False)),
        *(("80%", 0.8), ("0,5", 0.5), ("-0,125", -0.125), (" 1e3 ", 1000.0)),
        *(
            (text, None)
            for text in ("1,234", "1.5,2", "1,2,3", "c", "P", "nan", "inf", "", "%", ",5%%", None, [1])
        ),
    ],
)
def test_scores_as_tables_write_them(cell: object, number: float | None) -> None:
    assert read_score(cell) == (None if number is None else pytest.approx(number))


def test_a_missing_folder_is_a_missing_file(tmp_path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_answers(tmp_path / "gone"))
    assert LOG.exists()
