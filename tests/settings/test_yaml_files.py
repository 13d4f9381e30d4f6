"""YAML in and out: plain values, the line of each, and nothing but `BadConfig` for the rest."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tiltyard.errors import BadConfig
from tiltyard.settings.yaml_file import parse_yaml, read_yaml, write_yaml

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), text
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=15,
)
#: Pieces of YAML, so that random files are often nearly right.
pieces = st.sampled_from(
    ["a: ", "b:\n", "- ", "  ", "\n", "\t", "[", "]", "{", "}", "&x ", "*x", "<<: *x", "!!int ", "!!python/name:os ",
     "'", '"', "|", ">-", "#", "---\n", "...", "%YAML 1.1\n", "? ", ": ", "0x1F", "1e999", ".inf", "\\ud800", '"\\U00110000"',
     "\x85", "\ufeff", "\x00", "é", "1_000", "null", "~", "2026-11-05", "@", "`", ","]
)  # fmt: skip


@given(st.dictionaries(text, values, max_size=5))
@example({"a": "off", "b": "1e3", "c": "0o17", "d": "2026-11-05", "e": "", "f": "~", "g": "010", "h": "1:30"})
@example({"": 1e-7, "x": 1e300, "y": -0.0, "z": "\x85\u2028\n \t# : -"})
def test_what_is_written_reads_back_the_same(value):
    assert parse_yaml(write_yaml(value), "x").value == value
    assert yaml.safe_load(write_yaml(value)) == value


def said_of(read):
    """What is said of a file that cannot be read; nothing of one that can."""
    try:
        assert isinstance(read().value, dict)
    except BadConfig as error:
        return str(error)
    return None


@given(st.lists(pieces, max_size=25).map("".join) | st.text(max_size=80))
def test_no_text_raises_anything_but_bad_config(given_text):
    assert (said_of(lambda: parse_yaml(given_text, "x.yaml")) or "x.yaml").startswith("x.yaml")


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_bad_config(tmp_path_factory, given_bytes):
    path = tmp_path_factory.mktemp("bytes") / "x.yaml"
    path.write_bytes(given_bytes)
    assert str(path) in (said_of(lambda: read_yaml(path)) or str(path))


def test_every_value_knows_its_line():
    file = parse_yaml("# head\na: 1\nb:\n  c:\n    - x\n    - {d: 2,\n       e: 3}\n", "x.yaml")
    assert file.line(("a",)) == 2
    assert file.line(("b", "c", 1)) == 6
    assert file.line(("b", "c", 1, "e")) == 7
    assert file.where(("b", "c", 1, "missing")) == "x.yaml, line 6, b.c.1.missing"
    assert file.where(()) == "x.yaml, line 2"


def test_words_are_words_and_dates_are_text():
    found = parse_yaml("a: off\nb: no\nc: 2026-11-05\nd: True\ne: 012\nf: 0x1f\ng: .5\nh:\n1: x\n", "x").value
    assert found == {
        "a": "off", "b": "no", "c": "2026-11-05", "d": True, "e": 12, "f": 31, "g": 0.5, "h": None, "1": "x",
    }  # fmt: skip


def test_an_alias_repeats_what_it_names():
    assert parse_yaml("a: &x {b: 1}\nc: *x\n", "x").value == {"a": {"b": 1}, "c": {"b": 1}}


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("given_text", "said"),
    [
        ("a: 1\na: 2\n", "x.yaml, line 2: duplicate field a, first on line 1"),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", "x.yaml, line 4: duplicate field a.b, first on line 2"),
        ("a: 1\n\tb: 2\n", "x.yaml, line 2: not YAML: a tab; indent with spaces"),
        ("- 1\n- 2\n", "x.yaml, line 1: expected fields"),
        ("just words\n", "x.yaml, line 1: expected fields"),
        ("", "x.yaml: the file is empty"),
        ("# nothing\n", "x.yaml: the file is empty"),
        ("a: [1\nb: 2\n", "x.yaml, line 2: not YAML"),
        ("a: 1\n---\nb: 2\n", "x.yaml, line 2: not YAML: a second document"),
        ("a: &a [*a]\n", "x.yaml, line 1: nested too deeply, or an alias that contains itself"),
        (f"a: {'[' * 60}{']' * 60}\n", "nested too deeply"),
        (f"a: {'[' * 600}\n", "x.yaml: nested too deeply"),
        (LAUGHS, "more than 100,000 values"),
        ("a: !!python/object:os.system x\n", "is not supported; write a plain value"),
        ("a: !mine x\n", "x.yaml, line 1: the tag '!mine' is not supported"),
        ("a: !!binary aGk=\n", "is not supported"),
        ("a: !!set {x, y}\n", "is not supported"),
        ("a: !!int x\n", "'x' is not a valid int"),
        ("a: !!bool maybe\n", "'maybe' is not a valid bool"),
        (f"a: {'9' * 5000}\n", "is not a valid int"),
        ("a: 1\nb: 1e999\n", "x.yaml, line 2: '1e999' is not a finite number"),
        ('a: "\\ud800"\n', "a lone surrogate"),
        ('a: "\\Uffffffff"\n', "x.yaml: not YAML"),
        ("a: 1\nb: \x01\n", "x.yaml, line 2: the character"),
        ("? [a]\n: 1\n", "the name of a field must be a word"),
        ("a: *nowhere\n", "x.yaml, line 1: not YAML: found undefined alias"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(given_text, said):
    with pytest.raises(BadConfig) as caught:
        parse_yaml(given_text, "x.yaml")
    assert said in str(caught.value)


def test_other_encodings_missing_and_huge_files_are_said(tmp_path):
    path = tmp_path / "x.yaml"
    with pytest.raises(BadConfig, match="no such file"):
        read_yaml(path)
    with pytest.raises(BadConfig, match="cannot be read"):
        read_yaml(tmp_path)
    with pytest.raises(BadConfig, match="cannot be read"):
        read_yaml(tmp_path / "a\0b")
    path.write_bytes("a: 1\nb: é\n".encode("latin-1"))
    with pytest.raises(BadConfig, match=r"line 2.*UTF-8 text; save"):
        read_yaml(path)
    path.write_bytes("a: é\n".encode("utf-16"))
    with pytest.raises(BadConfig, match="not UTF-8 text"):
        read_yaml(path)
    path.write_bytes("\ufeffa: é\n".encode())
    assert read_yaml(path).value == {"a": "é"}
    path.write_bytes(b"#" * (1 << 20) + b"\na: 1\n")
    with pytest.raises(BadConfig, match="than 1 MiB"):
        read_yaml(path)
