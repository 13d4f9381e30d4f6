"""Whatever the bytes, a file loads or raises an `InputError`, and nothing else."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from support.format_samples import FIXTURES, FORMATS, as_parquet
from support.sizes import sized
from tiltyard.errors import InputError
from tiltyard.files import open_battles
from tiltyard.files.answers import read_answers
from tiltyard.files.format_detection import FORMATS as KNOWN

STYLE = ["model_a", "winner", "length_a", "bold_b"]
QUICK = settings(
    max_examples=sized(20, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def read(path: Path, **options: object) -> None:
    """Read a file in every way there is."""
    with suppress(InputError):
        source = open_battles(path, **options)
        for battle in source.battles():
            battle.to_dict()
        for batch in source.batches():
            batch.validate(full=True)
        if "length_a" in source.columns:
            for batch in source.batches(STYLE):
                batch.validate(full=True)
    with suppress(InputError):
        for answer in read_answers(path):
            answer.to_dict()


@pytest.fixture(scope="session")
def seeds(tmp_path_factory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("seeds")
    plain = [(FIXTURES / name).read_bytes() for name in FORMATS]
    columnar = [as_parquet(name, folder).read_bytes() for name in FORMATS if name != "autoarena.csv"]
    return [*plain, *columnar, *(gzip.compress(data) for data in plain[:3])]


@pytest.fixture
def place(tmp_path) -> Path:
    return tmp_path / "data"


@QUICK
@given(
    data=st.binary(max_size=200),
    start=st.sampled_from([b"", b"{", b"[{", b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]),
)
@example(data=b"\x00" * 40, start=b"")
@example(data=b"\r", start=b"")
def test_any_bytes(data: bytes, start: bytes, place: Path) -> None:
    place.write_bytes(start + data)
    read(place)


@QUICK
@given(data=st.data())
def test_fixtures_cut_short(data: st.DataObject, seeds: list[bytes], place: Path) -> None:
    seed = data.draw(st.sampled_from(seeds))
    place.write_bytes(seed[: data.draw(st.integers(0, len(seed)))])
    read(place)


@QUICK
@given(data=st.data())
def test_fixtures_with_flipped_bits(data: st.DataObject, seeds: list[bytes], place: Path) -> None:
    seed = bytearray(data.draw(st.sampled_from(seeds)))
    for bit in data.draw(st.lists(st.integers(0, 8 * len(seed) - 1), min_size=1, max_size=4)):
        seed[bit // 8] ^= 1 << bit % 8
    place.write_bytes(seed)
    read(place)


@QUICK
@given(data=st.data())
def test_any_fixture_read_as_any_format(data: st.DataObject, seeds: list[bytes], place: Path) -> None:
    place.write_bytes(data.draw(st.sampled_from(seeds)))
    read(place, format=data.draw(st.sampled_from([one.name for one in KNOWN])))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["model_a", "tie", "A>B", "model_1", "both_good", 1.5, 10**400]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["score", "role", "content", "math"]), inner)
    ),
    max_leaves=6,
)


@QUICK
@given(data=st.data())
def test_any_values_in_the_fields_of_a_format(data: st.DataObject, place: Path) -> None:
    one = data.draw(st.sampled_from(KNOWN))
    fields = sorted(
        {*one.reads, *one.answers_in, "model_a", "model_b", "winner", "pref", "weight", "time", "position"}
    )
    rows = data.draw(
        st.lists(st.fixed_dictionaries(dict.fromkeys(fields, json_values)), min_size=1, max_size=3)
    )
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in {one.name, "tiltyard-jsonl"}:
        read(place, format=name)
