"""Hostile files: each is read or refused with one message, in little time and memory."""

import inspect

import pytest
from hostile_files import BATTLE, HOSTILE_FILES
from limited_runs import parser_server

from support.sizes import sized
from support.special_files import SPECIAL, put_special, within_seconds
from tiltyard.errors import InputError
from tiltyard.files import open_battles
from tiltyard.files.answers import open_answers

#: CPU time: a shared machine may need twice as long as it says on the page.
SECONDS = 4.0
MEMORY_BYTES = 1 << 30
#: One file of so many is read.
EVERY = sized(2, 1)
#: What some of them must be told.
TOLD = {
    "gzip bomb of empty lines": "expands to more than 100 times its",
    "zstd bomb": "expands to more than 100 times its",
    "zip bomb": "expands to more than 100 times its",
    "xlsx bomb": "expands to more than 100 times its",
    "xlsx with nested elements": "nested too deeply; the limit is 64 levels",
    "xlsx with entities": "has a document type, which no workbook needs",
    "zip compressed by lzma": "compressed by a method that is not read; use Deflate or zstd",
    "json nested in a line": "nested too deeply to be read; the limit is 200 levels",
    "json nested a little": "nested too deeply to be read; the limit is 200 levels",
    "json of empty lists": "more than 1,000,000 lists and objects in one value; split it",
    "json duplicate keys": "the key 'winner' occurs twice in an object; remove one",
    "answers duplicate keys": "the key 'model' occurs twice in an object; remove one",
    "json not a number": "pref is nan; expected a number from 0 to 1",
    "manifest duplicate keys": "the key 'format' occurs twice in an object; remove one",
    "manifest not a number": "NaN is not a number of JSON; write null",
    "sparse lines": "line 2: longer than 64 MiB; split it, or check that it is text",
    "sparse csv": "longer than 64 MiB; split it, or check that it is text",
    "sparse manifest": "consists of holes (a sparse file)",
    "sparse replies": "consists of holes (a sparse file)",
    "parquet bomb": "states to expand to",
    "parquet of many rows": "rows in",
    "tar with holes": "has no manifest.json; it is not a backup",
    "backup with other values": "manifest.json cannot be read; use another backup",
    "image of giant dimensions": "2147483647 × 2147483647 pixels; the maximum is 100,000,000 pixels",
}


def test_every_hostile_file_ends_in_little_time_and_memory(tmp_path):
    problems = []
    with parser_server() as server:
        for name, (parsers, make) in list(HOSTILE_FILES.items())[::EVERY]:
            path = tmp_path / "data"
            path.unlink(missing_ok=True)
            if inspect.signature(make).parameters:
                make(path)
            else:
                path.write_bytes(make())
            # What a server is sent has a limit of its own, before it is parsed.
            fit = [
                one
                for one in parsers
                if path.stat().st_size < 1 << 26 or one not in {"upload", "import-body"}
            ]
            results = [server.run(parser, [path], seconds=SECONDS, memory_bytes=2 << 30)[0] for parser in fit]
            for parser, result in zip(fit, results, strict=True):
                if not result.is_harmless or result.memory_bytes > MEMORY_BYTES:
                    problems.append(f"{name}, {parser}: {result}")
            if name in TOLD and not any(TOLD[name] in result.detail for result in results):
                problems.append(f"{name}: {[result.detail for result in results]}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("read", [open_battles, open_answers])
@pytest.mark.parametrize("kind", SPECIAL)
def test_a_folder_with_special_files_is_read_without_them(tmp_path, kind, read):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "good.jsonl").write_bytes(BATTLE)
    put_special(kind, folder / "odd.jsonl")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    with within_seconds(20):
        if read is open_battles:
            assert len(list(read(folder).battles())) == 1
        else:
            with pytest.raises(InputError, match="prompt_id"):
                list(read(folder).answers())
