"""Every parser of bytes from outside, by name. Whatever the bytes, it ends, or raises one of `REFUSALS`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from tiltyard.arena.content.answer_rows import AnswerReading, check_upload_rows, read_checked_answers
from tiltyard.arena.content.blinding import strip_metadata
from tiltyard.arena.content.blinding.images import check_image_size
from tiltyard.arena.content.stored_conversations import detect_media_type
from tiltyard.arena.maintenance.backup import read_backup, remove_private_options
from tiltyard.core.board.document import BoardDocument
from tiltyard.core.judging.verdict import Reply, VerdictForm, read_reply
from tiltyard.errors import TiltyardError
from tiltyard.files import open_battles
from tiltyard.files.answers import open_answers
from tiltyard.files.parquet_tables import read_columns
from tiltyard.files.upload_reader import UploadReader
from tiltyard.judges.providers.local_replies import ReplayProvider
from tiltyard.judges.providers.provider import parse_body
from tiltyard.judges.providers.stream_readers import EventParser
from tiltyard.runs.manifest import MANIFEST
from tiltyard.runs.run_verification import verify_run
from tiltyard.settings.tournament_config import load_config
from tiltyard.web.texts.app_sandbox import sandboxed_app
from tiltyard.web.texts.markdown import render_text

#: What a parser may raise. Those of `core` and of streams raise `ValueError`, which their callers translate.
REFUSALS = (TiltyardError, ValueError)

_MOST_BYTES = 1 << 28
_STYLE = ["model_a", "winner", "length_a", "bold_b"]


def _battles(path: Path) -> None:
    source = open_battles(path)
    for battle in source.battles():
        battle.to_dict()
    for batch in source.batches():
        batch.validate(full=True)
    if "length_a" in source.columns:
        for batch in source.batches(_STYLE):
            batch.validate(full=True)


def _answers(path: Path) -> None:
    for answer in open_answers(path).answers():
        answer.to_dict()


def _upload(path: Path) -> None:
    """As the process of an upload reads it: the limits of this one stand for its own."""
    with tempfile.TemporaryDirectory() as name:
        reader = UploadReader(path, Path(name), _MOST_BYTES)
        for _ in check_upload_rows(reader.rows(), lambda: reader.beside, most=_MOST_BYTES):
            pass


def _import_body(path: Path) -> None:
    for _ in read_checked_answers(path, AnswerReading(body=True)):
        pass


def _saved_dataset(path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.link(path, folder / "data.arrow")
        (folder / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
        _answers(folder)


def _media(kind: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        data = path.read_bytes()
        media = detect_media_type(kind, data)
        check_image_size(media, data)
        strip_metadata(media, data)

    return read


def _app(path: Path) -> None:
    data = path.read_bytes()
    detect_media_type("app", data)
    sandboxed_app(data)


def _run_manifest(path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        os.link(path, Path(name) / MANIFEST)
        verify_run(Path(name))


def _dump(path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "dump"
        copy.write_bytes(path.read_bytes())
        remove_private_options(copy)


def _reply(path: Path) -> None:
    text = path.read_bytes().decode("utf-8", "replace")
    for form in VerdictForm:
        read_reply(Reply(text), form)


def _events(path: Path) -> None:
    parser = EventParser()
    for event in [*parser.feed(path.read_bytes()), *parser.close()]:
        parse_body(event.data)


PARSERS: dict[str, Callable[[Path], object]] = {
    "battles-jsonl": _battles,
    "battles-json": _battles,
    "battles-csv": _battles,
    "battles-parquet": _battles,
    "battles-gzip": _battles,
    "battles-zstd": _battles,
    "answers-jsonl": _answers,
    "answers-table": _answers,
    "answers-parquet": _answers,
    "answers-xlsx": _answers,
    "answers-inspect-eval": _answers,
    "answers-inspect-json": _answers,
    "answers-lm-eval": _answers,
    "answers-promptfoo": _answers,
    "answers-arrow": _saved_dataset,
    "upload": _upload,
    "import-body": _import_body,
    "image": _media("image"),
    "audio": _media("audio"),
    "app": _app,
    "run-manifest": _run_manifest,
    "run-columns": read_columns,
    "backup": read_backup,
    "dump": _dump,
    "tournament-yaml": load_config,
    "recorded-replies": lambda path: ReplayProvider(str(path)),
    "judge-reply": _reply,
    "server-events": _events,
    "board-document": lambda path: BoardDocument.from_json(path.read_bytes()),
    "markdown": lambda path: render_text(path.read_bytes().decode("utf-8", "replace")),
}
