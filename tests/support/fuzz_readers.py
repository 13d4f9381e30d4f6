"""A fuzzer of the readers, run by hand: whatever the bytes, a file loads or raises `InputError`.

    pip install atheris
    python tests/files/fuzz_readers.py -max_total_time=600 CORPUS

The fixtures are copied into CORPUS (a folder) as seeds, as they are and as Parquet. The first
byte of an input says which format is asked for; 0 is detection.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["tiltyard", "json", "csv", "gzip"]):
    from test_inspect_logs import chunked_members

    from support.format_samples import FIXTURES, FORMATS, as_parquet
    from support.log_archives import log, log_members, write_zip
    from tiltyard.errors import InputError
    from tiltyard.files import open_battles
    from tiltyard.files.answers import read_answers
    from tiltyard.files.format_detection import FORMATS as KNOWN

NAMES = [None, *(one.name for one in KNOWN)]
STYLE = ["model_a", "winner", "length_a", "bold_b"]
PLACE = Path(tempfile.mkdtemp(prefix="tiltyard-fuzz-")) / "data"


def read_once(data: bytes) -> None:
    """Read the bytes in every way; anything but an `InputError` is a finding."""
    PLACE.write_bytes(data[1:])
    with suppress(InputError):
        source = open_battles(PLACE, format=NAMES[data[0] % len(NAMES)] if data else None)
        for battle in source.battles():
            battle.to_dict()
        for batch in source.batches():
            batch.validate(full=True)
        if "length_a" in source.columns:
            for batch in source.batches(STYLE):
                batch.validate(full=True)
    with suppress(InputError):
        for answer in read_answers(PLACE):
            answer.to_dict()


def sow(corpus: Path) -> None:
    """Put the fixtures into the corpus."""
    corpus.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(FORMATS):
        (corpus / f"seed-{number}").write_bytes(b"\0" + (FIXTURES / name).read_bytes())
        columnar = as_parquet(name, PLACE.parent)
        (corpus / f"seed-{number}-parquet").write_bytes(b"\0" + columnar.read_bytes())
        columnar.unlink()
    for path in (FIXTURES / "answers").rglob("*.*"):
        (corpus / f"answers-{path.name}").write_bytes(b"\0" + path.read_bytes())
    for name, members in (("whole", log_members(log())), ("chunked", chunked_members())):
        packed = write_zip(PLACE.parent / f"{name}.eval", members)
        (corpus / f"answers-{name}").write_bytes(b"\0" + packed.read_bytes())
        packed.unlink()


def main() -> None:
    folders = [Path(word) for word in sys.argv[1:] if not word.startswith("-")]
    if folders:
        sow(folders[0])
    atheris.Setup(sys.argv, read_once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
