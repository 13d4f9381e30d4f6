"""Random files and options: an answer or a message, never a traceback."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.command import run
from support.sizes import sized

pytestmark = pytest.mark.usefixtures("without_charts")

names = st.sampled_from(["a", "b", "c", "d", "[red]", "\x1b[1m", "</td>", "é"])
required = {
    "model_a": names,
    "model_b": names,
    "winner": st.sampled_from(["model_a", "model_b", "tie", "both_bad"]),
}
right = {
    "question_id": st.sampled_from(["p", "q", "r", "s"]),
    "voter": st.sampled_from(["v", "w"]),
    "category": st.sampled_from(["red", "blue"]),
    "source": st.sampled_from(["human", "llm-judge"]),
    "judge_model": st.sampled_from(["j", "k"]),
    "pref": st.just(0.5),
    "weight": st.sampled_from([0.0, 0.5, 3.0]),
    "tone_a": st.sampled_from([1.0, -1.0, 0.0]),
    "tone_b": st.sampled_from([1.0, 2.0]),
    "response_a": st.sampled_from(["# Hi", "", "yes"]),
    "response_b": st.sampled_from(["no", "**bold**"]),
}
wrong = {
    "question_id": st.sampled_from(["", 3]),
    "pref": st.sampled_from([0.1, 0.9, 2.0, "x"]),
    "weight": st.sampled_from([-1.0, 1e300, "x"]),
    "label": st.sampled_from(["win", "lean", "tie", "inconsistent", "", "odd"]),
    "time": st.sampled_from(["2026-01-01", "noon", 5, 1e30]),
    "position": st.integers(-1, 3),
    "tone_a": st.just("warm"),
    "note": st.none() | st.booleans() | st.integers() | st.text(max_size=3),
}


@st.composite
def logs(draw):
    """Battles that all have the same fields."""
    chosen = draw(st.lists(st.sampled_from([*right]), unique=True, max_size=5))
    rows = st.fixed_dictionaries(required | {name: right[name] for name in chosen})
    return draw(st.lists(rows, min_size=5, max_size=40))


any_rows = st.lists(st.fixed_dictionaries(required, optional=right | wrong), max_size=8)


def as_json_lines(some):
    return "\n".join(json.dumps(row) for row in some).encode()


def as_json_list(some):
    return json.dumps(some).encode()


def as_csv(some):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in some for key in row)) or ["model_a"])
    writer.writeheader()
    writer.writerows(some)
    return text.getvalue().encode()


def as_parquet(some):
    try:
        table = pa.Table.from_pylist(some)
    except (pa.ArrowException, OverflowError, TypeError):
        return as_json_lines(some)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


containers = st.sampled_from([as_json_lines, as_json_list, as_csv, as_parquet])
right_files = st.builds(lambda some, container: container(some), logs(), containers)
any_files = (
    st.builds(lambda some, container: container(some), any_rows, containers)
    | st.builds(lambda data, cut: data[:cut], right_files, st.integers(0, 300))
    | st.binary(max_size=60)
    | st.text(max_size=60).map(str.encode)
)

OPTIONS = {
    "--method": ["bradley-terry", "elo", "glicko-2"],
    "--by": ["category", "source", "judge", "language"],
    "--style": ["length", "tone", "position", "markdown", "note", "length,position"],
    "--ties": ["half", "davidson", "drop"],
    "--intervals": ["prompts", "battles", "none"],
    "--bootstrap": [],
    "--level": ["0.01", "0.5", "0.9999", "1.5"],
    "--seed": ["1", "99999999999999999999", "-1"],
    "--soft": [],
    "--prior-sd": ["1", "300", "1e6", "0"],
    "--anchor": ["a", "a=1000", "zebra", "a=nan", "=3"],
    "--scale": ["1", "400", "1e6"],
    "--k": ["0.001", "1000"],
    "--n-perms": ["0", "1", "3"],
    "--columns": ["model_a=model_b,model_b=model_a", "winner=label", "colour=x", "weight=pref"],
    "--format": ["tiltyard-jsonl", "judgearena", "none"],
    "--model": ["a", "zebra"],
    "--out": ["run"],
}


@st.composite
def options(draw):
    chosen = draw(st.lists(st.sampled_from([*OPTIONS, *["--out"] * 6]), unique=True, max_size=4))
    return [
        word
        for name in chosen
        for word in (name, *([draw(st.sampled_from(OPTIONS[name]))] if OPTIONS[name] else []))
    ]


def answered(folder, data, given_options):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "battles").write_bytes(data)
        ran = run("rate", "battles", "--n-bootstraps", "3", *given_options)
        assert ran.code in (0, 2), ran
        assert ran.code == 2 or ran.err == "" or " left out: " in ran.err
        if ran.code == 0 and "--out" in given_options:
            assert run("verify", "run").code == 0
        compared = run("compare", "a", "b", "battles")
        assert compared.code in (0, 2), compared


@pytest.mark.slow
@settings(max_examples=sized(4, 300))
@given(data=right_files, given_options=options())
def test_battles_with_any_options_are_answered(tmp_path_factory, data, given_options):
    answered(tmp_path_factory.mktemp("fuzz"), data, given_options)


@settings(max_examples=sized(4, 300))
@given(data=any_files, given_options=options())
def test_any_file_is_answered(tmp_path_factory, data, given_options):
    answered(tmp_path_factory.mktemp("fuzz"), data, given_options)
