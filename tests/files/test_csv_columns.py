"""CSV read by column gives what CSV read by row gives, and the same errors."""

import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.sizes import sized
from tiltyard.core.battles import Table
from tiltyard.errors import BadBattle, InputError
from tiltyard.files import open_battles
from tiltyard.files.battle_tables import count_table
from tiltyard.files.row_reader import CsvReader

HEADER = "model_a,model_b,winner,question_id,weight,both_bad\n"


def opened(path, text, **options):
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    source = open_battles(path, **options)
    assert all(isinstance(reader, CsvReader) for reader in source.readers)
    return source


def by_column(source):
    """The table, or the kind of error."""
    try:
        table = count_table([source])
    except InputError:
        return "refused"
    return described(table)


def by_row(source):
    try:
        table = Table.from_battles(source.battles())
    except InputError:
        return "refused"
    return described(table)


def described(table):
    log = table.log()
    weight = [1.0] * table.n_battles if log.weight is None else log.weight.tolist()
    columns = (log.a, log.b, log.kind, log.prompt)
    return table.models, weight, *(None if one is None else one.tolist() for one in columns)


PIECES = [
    *("x", "y", "z", "tie", "model_a", "a", "B", " ", "1", "2.5", "true", "é", '"', '""', "\r\n", "\r"),
    *(",", ",", ",", "\n", "\n", "x,y,tie,q1,1,\n", "y,x,y,q2,,true\n", '"x","y",a,"q\n3",2,0\n'),
]


@settings(max_examples=sized(25, 5000), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_columns_are_what_rows_are(tmp_path, text):
    source = opened(tmp_path / "b.csv", HEADER + text)
    assert by_column(source) == by_row(source)


@pytest.mark.parametrize(
    "text",
    [
        '"x"z,y,tie,,,\n',
        '"x,y,tie,,,\n',
        'x"z,y,tie,,,\n',
        'x,y,tie,q,1,"true\n',
        "x,y,tie,q,1\n",
        "x,y,tie,q,1,,\n",
        "x,y,tie,q,nan,\n",
        "x,y,tie,q,inf,\n",
        "x,y,tie,q,1e400,\n",
        "x,y,tie,q, 1,\n",
        "x,y,tie,q,0x10,\n",
        "x,y,tie,q,1_000,\n",
        "x,y,tie,q,,yes\n",
        "x,y,tie,q,,TRUE\n",
        "x,y,tie,null,,\n",
        "x,NA,tie,NULL,,\n",
        " ,y,tie,,,\n",
        "x,y,\n",
        "\n\nx,y,tie,,,\n\n",
        "   \nx,y,tie,,,\n",
        "x,y,tie,,,\n\x00,y,tie,,,\n",
        "x,y,tie,,,\rx,y,tie,,,\r",
    ],
)
def test_odd_lines(tmp_path, text):
    source = opened(tmp_path / "b.csv", HEADER + text)
    assert by_column(source) == by_row(source)


@pytest.fixture
def _small_blocks(monkeypatch):
    """A block holds less than a hundred lines."""
    monkeypatch.setattr("tiltyard.files.row_reader._BLOCK_BYTES", 1 << 10)


@pytest.mark.usefixtures("_small_blocks")
def test_errors_late_in_a_file_name_their_line(tmp_path):
    good = "x,y,tie,q,1,\n" * 2000
    source = opened(tmp_path / "b.csv", HEADER + good + "x,y,tie\n")
    with pytest.raises(InputError, match="line 2002: 3 fields"):
        count_table([source])
    source = opened(tmp_path / "b.csv", HEADER + good + "x,,tie,q,1,\n" + "x,y,what,q,1,\n")
    with pytest.raises(BadBattle, match=r"line 2002: model_b .*line 2003"):
        count_table([source])
    source = opened(tmp_path / "b.csv", (HEADER + good + "x,y,tie,q,1,\n").encode() + b"x,y,tie,\xff,1,\n")
    with pytest.raises(InputError, match="line 2003: not UTF-8"):
        count_table([source])


@pytest.mark.usefixtures("_small_blocks")
def test_what_only_rows_can_tell_is_read_by_row(tmp_path):
    odd = HEADER + "x,y,tie,q,1,\n" * 1000 + "x,y,model_a,q, 2 ,True\n"
    table = count_table([opened(tmp_path / "b.csv", odd)])
    assert table.n_battles == 1001
    assert table.log().weight.max() == 2.0


@pytest.mark.parametrize("columns", [{}, {"model_a": "left", "winner": "who"}])
def test_headers_words_and_compression(tmp_path, columns):
    head = "left;Model B;who;Voter" if columns else "Model A;Model B;Outcome;Voter"
    text = f"\ufeff{head}\n" + "x;y;left;v1\ny;x;y;v2\nx;y;tie;\n"
    packed = gzip.compress(text.encode())
    source = opened(tmp_path / "b.csv", packed, columns=columns, outcomes={"left": "a"})
    assert by_column(source) == by_row(source)
    assert count_table([source]).n_battles == 3
