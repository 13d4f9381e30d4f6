"""Whatever a file of answers contains, it is read or raises an `InputError`; answers can be written and read back."""

from __future__ import annotations

import json
import math
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_answer_tables import ROWS, saved, workbook
from test_inspect_logs import chunked_members

from support.format_samples import FIXTURES
from support.log_archives import log, log_members, write_zip
from support.sizes import sized
from tiltyard.errors import InputError
from tiltyard.files.answer import KINDS, SCORES_ONLY, Answer
from tiltyard.files.answers import open_answers, write_answers

QUICK = settings(
    max_examples=sized(12, 200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ANSWERS = FIXTURES / "answers"
PLAIN = sorted(path for path in [*ANSWERS.rglob("*.json*"), *ANSWERS.rglob("*.csv")] if path.is_file())
DOCUMENTS = [path for path in PLAIN if path.suffix == ".json"]
LINES = [path for path in PLAIN if path.suffix == ".jsonl"]


def read(path: Path) -> None:
    """Read a file; every answer is whole, and no answer is empty."""
    with suppress(InputError):
        for answer in open_answers(path).answers():
            assert answer.kind in (*KINDS, SCORES_ONLY)
            assert all(math.isfinite(score) for score in answer.scores.values())
            assert answer.response or answer.kind == SCORES_ONLY or answer.source is None
            line = json.dumps(answer.to_dict(), ensure_ascii=False).encode()
            again = Answer.from_dict(json.loads(line), "x")
            assert again.to_dict() == answer.to_dict()


@pytest.fixture(scope="session")
def seeds(tmp_path_factory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("seeds")
    packed = [
        write_zip(folder / "zstd.eval", log_members(log())),
        write_zip(folder / "deflated.eval", log_members(log()), method=zipfile.ZIP_DEFLATED),
        write_zip(folder / "chunked.eval", chunked_members()),
        workbook(folder / "answers.xlsx"),
    ]
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "rows.parquet")
    return [path.read_bytes() for path in [*PLAIN, *packed, folder / "rows.parquet"]]


@pytest.fixture
def place(tmp_path) -> Path:
    return tmp_path / "samples_data.jsonl"


@QUICK
@given(data=st.data())
def test_files_cut_short(data: st.DataObject, seeds: list[bytes], place: Path) -> None:
    seed = data.draw(st.sampled_from(seeds))
    place.write_bytes(seed[: data.draw(st.integers(0, len(seed)))])
    read(place)


@QUICK
@given(data=st.data())
def test_files_with_flipped_bits(data: st.DataObject, seeds: list[bytes], place: Path) -> None:
    seed = bytearray(data.draw(st.sampled_from(seeds)))
    for bit in data.draw(st.lists(st.integers(0, 8 * len(seed) - 1), min_size=1, max_size=4)):
        seed[bit // 8] ^= 1 << bit % 8
    place.write_bytes(seed)
    read(place)


@QUICK
@given(
    data=st.binary(max_size=100),
    start=st.sampled_from([b"PK\x03\x04", b"PK\x05\x06", b'{"eval": {', b"prompt,a\n"]),
)
def test_any_bytes(data: bytes, start: bytes, place: Path) -> None:
    place.write_bytes(start + data)
    read(place)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["C", "user", "assistant", "attachment://0", "\ud800", "", 10**400, -1]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "text", "type", "value", "output", "vars", "turns", "id"]),
            inner,
        )
    ),
    max_leaves=6,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place of a JSON value: its owner and its key."""
    found: list[tuple[Any, Any]] = []
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        found += [(value, key), *places(value[key])]
    return found


def changed(data: st.DataObject, value: Any) -> Any:
    """The value with a few others put in, or taken out."""
    for _ in range(data.draw(st.integers(1, 3))):
        owner, key = data.draw(st.sampled_from(places(value)))
        if isinstance(owner, dict) and data.draw(st.booleans()):
            owner.pop(key, None)
        else:
            owner[key] = data.draw(values)
    return value


@QUICK
@given(data=st.data(), path=st.sampled_from(DOCUMENTS))
def test_documents_with_other_values(data: st.DataObject, path: Path, place: Path) -> None:
    place.write_text(json.dumps(changed(data, json.loads(path.read_text(encoding="utf-8")))))
    read(place)


@QUICK
@given(data=st.data(), path=st.sampled_from(LINES))
def test_lines_with_other_values(data: st.DataObject, path: Path, place: Path) -> None:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    place.write_text("".join(json.dumps(row) + "\n" for row in changed(data, rows)))
    read(place)


@QUICK
@given(data=st.data())
def test_chunked_logs_with_other_values(data: st.DataObject, place: Path) -> None:
    members = chunked_members()
    name = data.draw(st.sampled_from(sorted(members)))
    members[name] = json.dumps(changed(data, [json.loads(members[name])])[0]).encode()
    read(write_zip(place, members))


@QUICK
@given(data=st.data())
def test_damaged_data_sets(data: st.DataObject, tmp_path_factory) -> None:
    folder = saved(tmp_path_factory.mktemp("damaged") / "set", ROWS, files=1)
    path = next(folder.glob("*.arrow"))
    seed = bytearray(path.read_bytes())
    for bit in data.draw(st.lists(st.integers(0, 8 * len(seed) - 1), max_size=4)):
        seed[bit // 8] ^= 1 << bit % 8
    path.write_bytes(seed[: data.draw(st.integers(0, len(seed)))])
    read(folder)


def test_huge_lines(tmp_path) -> None:
    """A response of 20 MB in each format that has one long line."""
    text = "ä" * 10_000_000
    whole = log()
    whole["samples"] = [dict(whole["samples"][0], output={"completion": text})]
    (tmp_path / "log.json").write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")
    write_answers(tmp_path / "own.jsonl", [Answer(prompt_id="p", prompt="?", model="m", response=text)])
    for path in (tmp_path / "log.json", tmp_path / "own.jsonl"):
        (answer,) = open_answers(path).answers()
        assert answer.response == text
