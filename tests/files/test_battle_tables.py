"""From files to tables."""

import re
from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.counting_sources import InHand, assert_same, coded, parquet
from support.sizes import sized
from support.worlds import battles
from tiltyard.core.battles import Battle, Kind, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, hash_texts
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2
from tiltyard.errors import BadBattle, BadOption, CannotRate, InputError
from tiltyard.files import battle_tables, open_battles, read_battles, write_battles
from tiltyard.files.battle_tables import count_groups, count_table, models_by_group
from tiltyard.foundation.option_names import command_line_spelling
from tiltyard.simulation.demo.demo_roster import demo_battles

FULL = [
    Battle.from_dict(row)
    for row in (
        {
            "model_a": "oak",
            "model_b": "elm",
            "winner": "model_a",
            "label": "lean",
            "pref": 0.7,
            "voter": "v1",
        },
        {"model_a": "elm", "model_b": "ash", "winner": "tie", "label": "inconsistent", "weight": 0.5},
        {"model_a": "ash", "model_b": "oak", "winner": "both_bad", "question_id": "q1", "source": "human"},
        {"model_a": "oak", "model_b": "ash", "winner": "model_b", "question_id": "q1", "judge_model": "j"},
        {"model_a": "elm", "model_b": "oak", "winner": "model_b", "question_id": "q2", "dimension": "tone"},
    )
]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("some", [FULL, list(demo_battles(200))], ids=["full", "demo"])
def test_every_container_gives_the_same_table(ending, some, tmp_path):
    path = tmp_path / f"battles.{ending}"
    write_battles(path, some)
    assert_same(count_table([open_battles(path)]), Table.from_battles(some))


def test_files_are_laid_end_to_end(tmp_path):
    write_battles(tmp_path / "one.jsonl", FULL[:2])
    write_battles(tmp_path / "two.parquet", FULL[2:])
    sources = [open_battles(tmp_path / name) for name in ("one.jsonl", "two.parquet")]
    assert_same(count_table(sources), Table.from_battles(FULL))


names = st.sampled_from(["oak", "elm", "ash", "", "  ", None])
good_names = st.sampled_from(["oak", "elm", "ash"])
good_rows = st.fixed_dictionaries(
    {
        "model_a": good_names,
        "model_b": good_names,
        "winner": st.sampled_from(["model_a", "B", "tie (bothbad)", "tie"]),
        "label": st.sampled_from([None, ""]),
        "both_bad": st.sampled_from([None, False, True]),
        "pref": st.sampled_from([None, 0.5]),
        "weight": st.sampled_from([None, 0.0, 2.5]),
    }
)
any_rows = st.fixed_dictionaries(
    {
        "model_a": names,
        "model_b": names,
        "winner": st.sampled_from(["model_a", "model_b", "tie", "both_bad", "draw", "", None]),
        "label": st.sampled_from([None, "", "win", "lean", "tie", "both_bad", "inconsistent", "sure"]),
        "both_bad": st.sampled_from([None, False, True]),
        "pref": st.none() | st.sampled_from([-0.1, 0.0, 0.2, 0.25, 0.5, 0.75, 0.8, 1.0, 1.5, np.nan]),
        "weight": st.none() | st.sampled_from([-1.0, 0.0, 0.3, 1e13, np.inf, np.nan]),
    }
)


def is_battle(row):
    try:
        Battle.from_dict(row)
    except BadBattle:
        return False
    return True


@settings(max_examples=sized(25, 300))
@given(st.lists(good_rows | any_rows, min_size=1, max_size=8))
def test_columns_are_judged_as_their_rows_are(tmp_path_factory, rows):
    source = parquet(tmp_path_factory.mktemp("rows") / "rows.parquet", rows)
    if all(map(is_battle, rows)):
        assert_same(count_table([source]), Table.from_battles(map(Battle.from_dict, rows)))
    else:
        with pytest.raises(BadBattle) as raised:
            count_table([source])
        number = int(re.search(r"row (\d+)", str(raised.value))[1])
        assert not is_battle(rows[number - 1])


@pytest.mark.parametrize(
    "column",
    [pa.array([True, False, None]), pa.array(["TRUE", "0", None]), pa.array([1, 0, None], pa.int8())],
)
def test_a_judges_flag_is_read_from_any_column_that_says_true_or_false(tmp_path, column):
    rows = {"model_a": ["oak"] * 3, "model_b": ["elm"] * 3, "winner": ["model_a", "model_b", "tie"]}
    pq.write_table(pa.table(rows | {"both_bad": column}), tmp_path / "rows.parquet")
    assert [one.both_bad for one in read_battles(tmp_path / "rows.parquet")] == [True, False, None]
    log = count_table([open_battles(tmp_path / "rows.parquet")]).log()
    assert log.kind.tolist() == [Kind.WIN_A_FLAGGED, Kind.WIN_B, Kind.TIE]


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (pa.array(["true", "maybe"]), r"row 2: both_bad is maybe; expected bool"),
        (pa.array([0, 2]), r"row 2: both_bad is 2; expected bool"),
        (pa.array([0.5, 1.0]), "column both_bad has type double; expected bool"),
    ],
)
def test_a_flag_that_is_neither_true_nor_false_is_refused(tmp_path, column, problem):
    rows = {"model_a": ["oak"] * 2, "model_b": ["elm"] * 2, "winner": ["model_a"] * 2, "both_bad": column}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=problem):
        count_table([open_battles(tmp_path / "rows.parquet")])


WRONG = {
    "model_a": (" ", "model_a is ' '"),
    "model_b": (None, "model_b is None"),
    "winner": ("draw", "winner is 'draw'"),
    "label": ("sure", "label is 'sure'"),
    "pref": (0.1, r"pref 0\.1 .* contradicts"),
    "weight": (-2.0, r"weight is -2\.0"),
}
GOOD = {"model_a": "oak", "model_b": "elm", "winner": "model_a", "label": "win", "pref": 0.9, "weight": 2.0}


@pytest.mark.parametrize("field", WRONG)
@pytest.mark.parametrize("place", [0, 17, 29])
def test_an_error_names_the_first_wrong_row(field, place, tmp_path):
    value, problem = WRONG[field]
    rows = [GOOD | ({field: value} if k in (place, 29) else {}) for k in range(30)]
    source = parquet(tmp_path / "rows.parquet", rows, row_group_size=7)
    with pytest.raises(BadBattle, match=rf"rows\.parquet, row {place + 1}: {problem}"):
        count_table([source])


def test_the_first_of_several_wrong_outcomes_is_named(tmp_path):
    rows = [GOOD, GOOD | {"winner": "zebra"}, GOOD | {"winner": "aardvark"}]
    with pytest.raises(BadBattle, match=r"row 2.*'zebra'"):
        count_table([parquet(tmp_path / "rows.parquet", rows)])


def kinds_of(table: Table) -> list[int]:
    return table.log().kind.tolist()


def test_labels_refine_outcomes():
    source = InHand.of(
        model_a=["x"] * 4, model_b=["y"] * 4, winner=["A", "B", "tie", "tie"],
        label=["lean", "lean", "inconsistent", None],
    )  # fmt: skip
    assert kinds_of(count_table([source])) == [Kind.LEAN_A, Kind.LEAN_B, Kind.INCONSISTENT, Kind.TIE]


def test_a_weight_of_one_is_no_weight():
    columns = {"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": ["A", "A"]}
    assert count_table([InHand.of(**columns, weight=[1.0, None])]).log().weight is None
    assert count_table([InHand.of(**columns, weight=[2.0, None])]).log().weight.tolist() == [2.0, 1.0]


def test_an_unstated_preference_is_nan():
    columns = {"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": ["A", "A"]}
    np.testing.assert_array_equal(
        count_table([InHand.of(**columns, pref=[0.8, None])]).log().pref, [0.8, np.nan]
    )
    assert count_table([InHand.of(**columns, pref=pa.nulls(2, pa.float64()))]).log().pref is None


def test_dictionaries_may_hold_what_no_row_bears():
    source = InHand.of(
        model_a=coded([1, 2], ["ghost", "x", "y"]),
        model_b=coded([1, 0], ["x", "y", ""]),
        winner=coded([0, 0], ["model_a", "nonsense"]),
        source=coded([1, 1], ["llm-judge", "human"]),
        question_id=coded([2, None], ["a", "b", "c"]),
    )
    table = count_table([source])
    assert (table.models, table.tags) == (("x", "y"), {"source": {"human"}})
    assert table.log().prompt.tolist() == [hash_texts(["c"])[0], MISSING_KEY]


@pytest.mark.parametrize("field", ["model_a", "winner"])
def test_a_null_among_codes_is_missing(field):
    columns = {"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": ["A", "A"]}
    columns[field] = coded([0, None], [columns[field][0]])
    with pytest.raises(BadBattle, match=f"hand, row 2: {field} is None"):
        count_table([InHand.of(**columns)])


def test_a_dictionary_that_comes_again_keeps_its_keys():
    source = InHand.of(
        model_a=["x"] * 4, model_b=["y"] * 4, winner=["A"] * 4, question_id=coded([1, 0, 1, None], ["p", "q"])
    )
    keys = hash_texts(["q", "p", "q", None]).tolist()
    assert count_table([source]).log().prompt.tolist() == keys
    assert count_table([replace(source, size=2)]).log().prompt.tolist() == keys


def test_dictionaries_that_change_from_batch_to_batch_keep_their_keys(tmp_path):
    some = [
        Battle.from_dict(
            {"model_a": f"m{k % 5}", "model_b": f"n{k}", "winner": "tie", "question_id": f"q{k % 9}"}
        )
        for k in range(300)
    ]
    rows = [battle.to_dict() for battle in some]
    for row in rows:
        row.update(source=None, judge_model=None)
    source = parquet(tmp_path / "rows.parquet", rows, row_group_size=11)
    table = count_table([source])
    assert table.models == Table.from_battles(some).models
    np.testing.assert_array_equal(table.log().prompt, hash_texts([battle.question_id for battle in some]))


def test_a_column_of_nothing_names_no_cluster():
    source = InHand.of(model_a=["x"], model_b=["y"], winner=["A"], question_id=pa.nulls(1, pa.string()))
    assert count_table([source]).keyed == frozenset()


@pytest.mark.parametrize("clusters", [True, False])
def test_prompts_and_voters_are_read_for_clusters_only(clusters):
    source = InHand.of(model_a=["x"], model_b=["y"], winner=["A"], question_id=["q"], voter=["v"])
    table = count_table([source], clusters=clusters)
    assert table.keyed == ({"prompt", "voter"} if clusters else set())
    assert ("question_id" in source.asked, "voter" in source.asked) == (clusters, clusters)


def test_counts_alone_keep_no_log(tmp_path):
    source = InHand.of(model_a=["x", "y"], model_b=["y", "x"], winner=["A", "A"])
    table = count_table([source], log=False)
    assert table.n_battles == 2
    with pytest.raises(CannotRate, match="only counts"):
        table.log()


def test_progress_counts_every_battle():
    seen = []
    count_table(
        [InHand.of(model_a=["x", "y"], model_b=["y", "x"], winner=["A", "A"])] * 3, progress=seen.append
    )
    assert seen == [2, 2, 2, 0]


@pytest.mark.parametrize(
    "method",
    [
        BradleyTerry(),
        BradleyTerry(interval="bootstrap", n_bootstraps=4),
        BradleyTerry(style=True),
        Elo(n_permutations=3, n_bootstraps=3),
        Glicko2(kernel="plain"),
    ],
    ids=["sandwich", "bootstrap", "style", "elo", "glicko-2"],
)
def test_a_log_read_again_gives_the_same_bits(method, tmp_path, monkeypatch):
    write_battles(tmp_path / "battles.parquet", demo_battles(300))
    style = ["length"] if getattr(method, "style", False) else []
    kept = count_table([open_battles(tmp_path / "battles.parquet")], style=style)
    monkeypatch.setattr(battle_tables, "_IN_MEMORY_ROWS", 100)
    reread = count_table([open_battles(tmp_path / "battles.parquet")], style=style)
    assert kept._log is not None
    assert reread._log is None
    assert_same(reread, kept)
    one, other = method(kept), method(reread)
    np.testing.assert_array_equal(one.rating, other.rating)
    if one.interval is not None:
        np.testing.assert_array_equal(one.interval.low, other.interval.low)


def test_a_file_of_unknown_length_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(battle_tables, "_IN_MEMORY_ROWS", 1)
    write_battles(tmp_path / "battles.jsonl", FULL)
    assert count_table([open_battles(tmp_path / "battles.jsonl")])._log is not None


@pytest.mark.parametrize("by", ["dimension", "category", "language", "source", "judge"])
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_groups_are_tables_of_their_own(by, ending, tmp_path):
    values = ["red", "blue", None, "red", ""]
    some = battles("a>b b>a a=b a>b b>a", **{{"judge": "judge_model"}.get(by, by): values})
    write_battles(tmp_path / f"battles.{ending}", some)
    tables = count_groups([open_battles(tmp_path / f"battles.{ending}")], [by])[by]
    assert {name: table.n_battles for name, table in tables.items()} == {"(none)": 2, "blue": 1, "red": 2}


def test_a_file_without_the_column_is_of_no_group(tmp_path):
    write_battles(tmp_path / "one.parquet", battles("a>b b>a", category=["red", "blue"]))
    write_battles(tmp_path / "two.parquet", battles("a=b"))
    sources = [open_battles(tmp_path / name) for name in ("one.parquet", "two.parquet")]
    assert list(count_groups(sources, ["category"])["category"]) == ["(none)", "blue", "red"]


@pytest.mark.parametrize("by", ["taste", "judge"])
def test_groups_need_a_known_column(by):
    source = InHand.of(model_a=["x"], model_b=["y"], winner=["A"])
    message = f"by='{by}': the battles have no column {by}; they have 'model_a', 'model_b', 'winner'"
    with pytest.raises(BadOption, match=message):
        count_groups([source], [by])[by]
    with command_line_spelling(), pytest.raises(BadOption, match=f"--by {by}: the battles have no"):
        count_groups([source], [by])[by]


NAMED = {"model_a": ["x"] * 4, "model_b": ["y"] * 4, "winner": ["A", "B", "A", "tie"]}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([1, 2, 0, None], ["(none)", "0", "1", "2"]),
        ([1.0, 2.5, float("nan"), None], ["(none)", "1", "2.5"]),
        ([True, False, None, True], ["(none)", "false", "true"]),
        (["b", "", "a", None], ["(none)", "a", "b"]),
        ([date(2026, 5, 1)] * 4, ["2026-05-01"]),
    ],
)
def test_groups_of_any_column_are_named_by_their_values(values, names):
    tables = count_groups([InHand.of(**NAMED, turn=values)], ["turn"])["turn"]
    assert list(tables) == names
    assert sum(table.n_battles for table in tables.values()) == 4


def test_whole_numbers_have_one_name_in_every_file(tmp_path):
    (tmp_path / "one.csv").write_text("model_a,model_b,winner,turn\nx,y,tie,2\n")
    (tmp_path / "two.jsonl").write_text(
        '{"model_a": "x", "model_b": "y", "winner": "tie", "turn": 2}\n'
        '{"model_a": "x", "model_b": "y", "winner": "tie", "turn": 2.0}\n'
    )
    sources = [open_battles(tmp_path / name) for name in ("one.csv", "two.jsonl")]
    assert {name: table.n_battles for name, table in count_groups(sources, ["turn"])["turn"].items()} == {
        "2": 3
    }


def test_lists_and_objects_are_no_groups():
    with pytest.raises(BadOption, match="by='tags'"):
        count_groups([InHand.of(**NAMED, tags=[["a"], ["b"], [], None])], ["tags"])["tags"]


def test_a_column_with_too_many_values_is_refused(monkeypatch):
    monkeypatch.setattr(battle_tables, "_MAX_GROUPS_COUNT", 3)
    source = InHand.of(
        **NAMED,
        turn=[1, 2, 3, 4],
        tag=["a", "a+b", "b+c", "c"],
        zone=[f"0{hour}:00+00:00" for hour in range(4)],
    )
    with pytest.raises(BadOption, match="by='turn'"):
        count_groups([source], ["turn"])["turn"]
    with pytest.raises(BadOption, match="by='zone'"):
        count_groups([source], ["zone"])["zone"]
    with pytest.raises(BadOption, match="overlap with overlapping="):
        count_groups([source], ["tag"])["tag"]
    assert list(count_groups([source], ["tag"], overlapping=True)["tag"]) == ["a", "b", "c"]


def test_several_columns_are_read_in_one_pass():
    source = InHand.of(**NAMED, turn=[1, 2, 1, 2], tag=["a", "a", "b", None])
    seen = []
    found = count_groups(
        [replace(source, size=3)], ["tag", "turn"], each=lambda batch: seen.append(len(batch))
    )
    assert {by: list(tables) for by, tables in found.items()} == {
        "tag": ["(none)", "a", "b"],
        "turn": ["1", "2"],
    }
    assert seen == [3, 1]


def test_models_by_group():
    source = InHand.of(
        model_a=["x", "y", "z"], model_b=["y", "z", "x"], winner=["A"] * 3, source=["human", None, "human"]
    )
    assert models_by_group([source], "source") == {"human": {"x", "y", "z"}, "(none)": {"y", "z"}}
