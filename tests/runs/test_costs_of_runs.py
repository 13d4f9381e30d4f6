"""Costs: sums over attempts, exact to the last picodollar; what is unknown is never nothing."""

import json
from collections import Counter
from dataclasses import replace
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.judged_runs import attempts_of, made_run, written
from tiltyard.errors import UnreadableFile
from tiltyard.files.parquet_tables import read_rows
from tiltyard.report.judging_sections import costs_section
from tiltyard.runs.run_costs import (
    QuestionIndex,
    attempt_problem,
    costs_document,
    dollars_text,
    picodollars_of,
)
from tiltyard.runs.run_verification import verify_run
from tiltyard.runs.tournament_manifest import ATTEMPT_COLUMNS

RUN = made_run(prompts=4)
JUDGED = [one for name in RUN.dimensions for one in RUN.judged(name)]
MANIFEST = RUN.draft


def asked(judged=JUDGED):
    found = QuestionIndex()
    for one in judged:
        found.add(one)
    return found


def costs(rows, manifest=MANIFEST):
    return costs_document(manifest, asked(), rows)


@given(st.integers(min_value=0, max_value=10**26))
def test_money_survives_being_written(picodollars):
    text = dollars_text(picodollars)
    assert picodollars_of(text, "usd") == picodollars
    with localcontext() as context:
        context.prec = 60
        assert Decimal(text) * 10**12 == picodollars


@pytest.mark.parametrize(
    "text", ["", "-1", "1e3", "NaN", "0.0000000000001", "1.", ".5", "1 ", "٣", "9" * 16, "1\n"]
)
def test_what_is_no_sum_is_refused(text):
    with pytest.raises(UnreadableFile, match="dollars"):
        picodollars_of(text, "attempts.parquet, row 1: usd")


prices = st.none() | st.decimals(0, 100, places=12).map(lambda value: f"{value:f}")


FLYING = {"state": "in_flight", "usd": None, "finished_at": None, "input_tokens": None, "output_tokens": None}


@given(st.lists(prices, max_size=6), st.booleans())
def test_what_is_in_flight_stands_apart_from_what_was_paid(reserved, again):
    settled = next(attempts_of(JUDGED, "1.5"))
    flying = [
        settled | FLYING | {"attempt_id": f"f{k}", "reserved_usd": usd} for k, usd in enumerate(reserved)
    ]
    before, after = (
        costs([settled])["actual"],
        costs([*flying, settled] if again else [settled, *flying])["actual"],
    )
    sums = after.pop("in_flight")
    assert before.pop("in_flight") == {"calls": 0, "reserved_usd": "0"}
    paid, most = Decimal(before.pop("at_most_usd")), after.pop("at_most_usd")
    assert after == before
    assert sums["calls"] == len(reserved)
    assert (sums["reserved_usd"] is None) == (None in reserved)
    assert (most is None) == (None in reserved)
    if None not in reserved:
        assert Decimal(sums["reserved_usd"]) == sum(map(Decimal, reserved))
        assert Decimal(most) == paid + Decimal(sums["reserved_usd"])


def test_an_attempt_in_flight_may_be_of_any_question_and_has_no_price():
    row = next(attempts_of(JUDGED, "1")) | FLYING
    assert attempt_problem(row, asked()) is None
    assert "price" in attempt_problem(row | {"usd": "1"}, asked())
    assert "not part" in attempt_problem(row | {"question_id": "0" * 32}, asked())


def test_a_folder_with_attempts_in_flight_can_be_verified(tmp_path):
    run = made_run(prompts=4)
    rows = [row | (FLYING if k % 3 == 0 else {}) for k, row in enumerate(run.attempts())]
    folder = written(tmp_path, replace(run, attempts=lambda: iter(rows)))
    assert verify_run(folder).exact
    total = json.loads((folder / "costs.json").read_text())["actual"]
    flying = [row for row in rows if row["state"] == "in_flight"]
    assert total["in_flight"]["calls"] == len(flying)
    assert total["calls"] == len(rows) - len(flying)
    assert Decimal(total["in_flight"]["reserved_usd"]) == len(flying) * Decimal("0.01")
    assert Decimal(total["at_most_usd"]) == Decimal(total["usd"]) + Decimal(
        total["in_flight"]["reserved_usd"]
    )


@given(
    st.lists(
        st.tuples(st.integers(0, len(JUDGED) - 1), prices, st.sampled_from(["ok", "lost", "refused"])),
        max_size=25,
    )
)
def test_sums_are_exact_and_unknown_is_never_nothing(drawn):
    template = next(attempts_of(JUDGED, "1"))
    rows = [
        template
        | {"question_id": JUDGED[k].question.id, "judge_model": JUDGED[k].question.judge}
        | {"dimension": JUDGED[k].question.dimension, "usd": usd, "state": state}
        | {"input_tokens": None if state == "refused" else 10}
        for k, usd, state in drawn
    ]
    found = costs(rows)
    known = sum((Decimal(usd) for _, usd, state in drawn if usd is not None and state == "ok"), Decimal(0))
    paid = sum((Decimal(usd) for _, usd, _ in drawn if usd is not None), Decimal(0))
    total = found["actual"]
    assert Decimal(total["known_usd"]) == known
    assert (total["usd"] is None) == (total["at_most_usd"] is None) == any(usd is None for _, usd, _ in drawn)
    assert total["usd"] is None or Decimal(total["usd"]) == paid
    lost = [usd for _, usd, state in drawn if state == "lost"]
    assert total["paid_and_lost"]["calls"] == len(lost)
    assert (total["paid_and_lost"]["usd"] is None) == (None in lost)
    assert total["fresh"] == len({k for k, _, _ in drawn})
    parts = found["by_judge_and_dimension"]
    for name in ("questions", "fresh", "from_cache", "calls", "calls_of_unknown_price"):
        assert sum(part[name] for part in parts) == total[name]
    assert sum(Decimal(part["known_usd"]) for part in parts) == known


def test_costs_agree_with_a_count_by_hand(tmp_path):
    folder = written(tmp_path, made_run(prompts=5))
    rows = list(read_rows(folder / "attempts.parquet", ATTEMPT_COLUMNS))
    found = json.loads((folder / "costs.json").read_text())
    total = found["actual"]
    assert total["calls"] == len(rows)
    assert total["input_tokens"] == sum(row["input_tokens"] or 0 for row in rows)
    assert {state: n for state, n in total["states"].items() if n} == Counter(row["state"] for row in rows)
    assert Decimal(total["usd"]) == sum(Decimal(row["usd"]) for row in rows)
    fresh = {row["question_id"] for row in rows}
    judged = [one for name in RUN.dimensions for one in made_run(prompts=5).judged(name)]
    cached = [one for one in judged if one.reply is not None and one.question.id not in fresh]
    assert (total["questions"], total["fresh"]) == (len(judged), len(fresh))
    assert total["from_cache"] == len(cached) > 0
    assert found["estimate"]["calls"] == 99


def test_without_attempts_nothing_was_paid_and_tokens_are_not_known():
    total = costs([])["actual"]
    assert (total["usd"], total["calls"], total["input_tokens"]) == ("0", 0, None)
    assert total["questions"] == len(JUDGED)
    assert total["from_cache"] == sum(one.reply is not None for one in JUDGED) < len(JUDGED)


@pytest.mark.parametrize(
    ("wanted", "read", "idle"), [(True, 0, True), (True, 5, False), (False, 0, False), (True, None, False)]
)
def test_prompt_caching_that_did_nothing_is_said(wanted, read, idle):
    manifest = MANIFEST.model_copy(update={"prompt_cache_asked": wanted})
    answered = next(one for one in attempts_of(JUDGED, "1") if one["input_tokens"] is not None)
    row = answered | {"cache_read_tokens": read}
    row |= {"input_tokens": None} if read is None else {}
    found = costs([row], manifest)
    assert found["prompt_cache"]["did_nothing"] is idle
    assert ("prompt-cache-idle" in costs_section(found)) is idle


def test_a_call_that_warmed_a_cache_has_no_question():
    row = next(attempts_of(JUDGED, "1")) | {"question_id": None, "dimension": None}
    assert attempt_problem(row, asked()) is None
    found = costs([row])
    assert found["actual"]["fresh"] == 0
    assert [one["dimension"] for one in found["by_judge_and_dimension"]] == [*RUN.dimensions, None]
    assert "(none)" in costs_section(found)


def test_what_is_not_known_is_called_unknown():
    found = costs(list(attempts_of(JUDGED, None)))
    page = costs_section(found)
    assert "unknown" in page
    assert "$0<" not in page
    arrived = next(row for row in attempts_of(JUDGED, "2.5") if row["state"] == "ok")
    assert "$2.50 known" in costs_section(costs([arrived, next(attempts_of(JUDGED, None))]))


def test_an_estimate_is_optional_and_may_be_of_any_shape():
    for estimate in ({}, {"calls": "many", "usd": 3}, {"usd": {"live": None}}, {"calls": 10**9}):
        found = costs([], MANIFEST.model_copy(update={"estimate": estimate}))
        assert ("the plan expected" in costs_section(found)) is bool(estimate)
