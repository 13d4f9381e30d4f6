"""Results that are kept: found again if nothing changed, and safe from a kill."""

import enum
import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.ratings import BradleyTerry, Elo
from tiltyard.errors import BadOption
from tiltyard.simulation import studies as kept_module
from tiltyard.simulation.studies import (
    DEPENDENCY_PACKAGES,
    ResultCache,
    canonical_text,
    code_hash,
    from_plain,
    to_plain,
    versions,
)
from tiltyard.simulation.worlds import WorldSettings


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Inner:
    share: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outer:
    count: int
    maybe: float | None
    pair: tuple[int, float]
    inner: Inner
    many: tuple[Inner, ...] = ()
    by_name: dict[str, float] = field(default_factory=dict)
    ranks: list[int] = field(default_factory=list)
    colour: Colour = Colour.RED


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INNERS = st.builds(Inner, share=FLOATS, names=st.lists(st.text()).map(tuple))
OUTERS = st.builds(
    Outer,
    count=st.integers(),
    maybe=st.none() | FLOATS,
    pair=st.tuples(st.integers(), FLOATS),
    inner=INNERS,
    many=st.lists(INNERS, max_size=3).map(tuple),
    by_name=st.dictionaries(st.text(), FLOATS, max_size=3),
    ranks=st.lists(st.integers()),
)

SETTINGS = WorldSettings(models=5)


def opened(folder, settings=SETTINGS, **made_by):
    return ResultCache(folder, "order", settings, made_by or {"version": 1, "code": "abc"})


@given(OUTERS)
def test_what_is_kept_comes_back_as_it_was(outer):
    text = canonical_text(to_plain(outer))
    assert "\n" not in text
    assert from_plain(Outer, json.loads(text)) == outer


def test_numbers_come_back_as_the_floats_they_stand_for():
    for share in (3, np.float64(0.5)):
        again = from_plain(Inner, json.loads(canonical_text(to_plain(Inner(share)))))
        assert type(again.share) is float


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Inner(float("nan")), "share is nan"),
        (Inner(float("inf")), "share is inf"),
        (Outer(1, None, (1, 2.0), Inner(0.0, ({1},))), r"inner.names\[0\] is \{1\} \(set\)"),
        (Outer(np.int64(1), None, (1, 2.0), Inner(0.0)), "count is .*int64"),
        ({1: 2}, "the value is {1: 2}"),
    ],
)
def test_what_json_cannot_keep_is_refused_by_name(wrong, said):
    with pytest.raises(BadOption, match=said):
        to_plain(wrong)


def test_results_are_found_again_and_others_are_not(tmp_path):
    first = opened(tmp_path)
    assert first.get(1) is None
    first.add(1, {"share": 0.5})
    first.add(2, {"share": 0.25})
    assert first.get(1) == {"share": 0.5}
    again = opened(tmp_path)
    assert len(again) == 2
    assert (again.get(1), again.get(2), again.get(3)) == ({"share": 0.5}, {"share": 0.25}, None)


@pytest.mark.parametrize("made_by", [{"version": 2, "code": "abc"}, {"version": 1, "code": "abd"}])
def test_another_version_or_other_code_finds_nothing_and_destroys_nothing(tmp_path, made_by):
    opened(tmp_path).add(1, 7)
    assert opened(tmp_path, replace(SETTINGS, lazy=0.06)).path != opened(tmp_path).path
    other = opened(tmp_path, **made_by)
    assert other.get(1) is None
    other.add(1, 8)
    assert (opened(tmp_path).get(1), opened(tmp_path, **made_by).get(1)) == (7, 8)
    assert len(list(tmp_path.iterdir())) == 1


def test_methods_with_the_same_fields_are_not_the_same_settings():
    assert canonical_text(to_plain((BradleyTerry(),))) != canonical_text(to_plain((Elo(),)))
    assert to_plain(Inner(1.0))["class"] == "Inner"


@given(cut=st.integers(1, 400), tail=st.booleans())
def test_a_line_cut_short_is_passed_over_and_written_again(tmp_path_factory, cut, tail):
    folder = tmp_path_factory.mktemp("kept")
    first = opened(folder)
    first.add(1, 7)
    whole = first.path.read_bytes()
    first.add(2, 8)
    both = first.path.read_bytes()
    torn = both[: max(len(both) - cut, len(whole) + 1)]
    first.path.write_bytes(torn)
    again = opened(folder)
    assert again.get(1) == 7
    assert again.get(2) == (8 if len(torn) >= len(both) - 1 else None)
    again.add(3, 9)
    again.add(2, 8)
    last = opened(folder)
    assert [last.get(seed) for seed in (1, 2, 3)] == [7, 8, 9]
    assert last.path.read_bytes().startswith(torn)


@pytest.mark.parametrize("rubbish", [b"[1]\n", b'{"key": 3}\n', b"\xff\xfe\n", b"null\n", b"\n\n"])
def test_lines_that_say_nothing_are_passed_over(tmp_path, rubbish):
    first = opened(tmp_path)
    first.add(1, 7)
    first.path.write_bytes(rubbish + first.path.read_bytes())
    assert opened(tmp_path).get(1) == 7


def test_two_who_write_at_once_lose_nothing(tmp_path):
    one, other = opened(tmp_path), opened(tmp_path)
    for seed in range(5):
        one.add(2 * seed, seed)
        other.add(2 * seed + 1, seed)
    assert [opened(tmp_path).get(seed) for seed in range(10)] == [seed // 2 for seed in range(10)]


def test_a_line_says_what_made_it(tmp_path):
    first = opened(tmp_path)
    first.add(4, 7)
    row = json.loads(first.path.read_text())
    assert row["settings"] == to_plain(SETTINGS)
    assert (row["study"], row["seed"], row["version"], row["code"]) == ("order", 4, 1, "abc")


def test_a_place_that_cannot_be_used_is_named(tmp_path):
    kept = opened(tmp_path / "file")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="order-"):
        kept.add(1, 7)
    (tmp_path / opened(tmp_path).path.name).mkdir()
    with pytest.raises(BadOption, match="set TILTYARD_HOME"):
        opened(tmp_path)


def test_a_full_disk_is_an_error(tmp_path):
    class Full:
        def seek(self, *_):
            return 0

        def write(self, data):
            return len(data) - 1

    with pytest.raises(OSError, match="space"):
        kept_module._append(Full(), b"line\n")


def test_the_code_counts_module_by_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "code_that_counts"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "worlds.py").write_text("a = 1")
    (package / "demo.py").write_text("b = 1")
    code_hash.cache_clear()
    try:
        seen = [code_hash(("code_that_counts",)), code_hash(("code_that_counts.worlds",))]
        (package / "demo.py").write_text("b = 2")
        code_hash.cache_clear()
        assert code_hash(("code_that_counts",)) != seen[0]
        assert code_hash(("code_that_counts.worlds",)) == seen[1]
        for unknown in ("cellar", "cellar.shelf"):
            with pytest.raises(BadOption, match=f"no module named {unknown};"):
                code_hash((unknown,))
    finally:
        code_hash.cache_clear()


def test_arithmetic_is_part_of_the_key():
    made_by = versions()
    assert made_by["numpy"] == np.__version__
    assert set(made_by) == {"code", "numpy", "scipy", "numba"}
    assert made_by["code"] == code_hash(DEPENDENCY_PACKAGES)
    assert kept_module._version("no-such-library") is None
