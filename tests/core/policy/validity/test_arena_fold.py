"""Standing, ratings and evaluations, followed together: however the log is cut, the same bits."""

import ast
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiltyard.core
from support import TESTS
from support.folded_log import digests
from support.sizes import sized
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state import standing
from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import KEPT_SHAPES, Policy
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings, method_from_dict, method_to_dict
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.arena_fold import (
    ArenaFold,
    _outline_numbers,
    decode_state,
    encode_state,
    state_digest,
)
from tiltyard.core.policy.validity.publication import EvaluationHistory, evaluate
from tiltyard.core.ratings.glicko2 import Glicko2
from tiltyard.core.ratings.online_bradley_terry import OnlineBradleyTerry
from tiltyard.errors import BadOption

MODELS, PROMPTS = 5, 4
NAMES = [f"m{k}" for k in range(MODELS)], [f"p{k}" for k in range(PROMPTS)]
SMALL = Policy(
    window=12,
    contenders=2,
    meetings=3,
    session_pairs=2,
    sessions_kept=3,
    both_bad_over=5,
    form_votes=3,
    evaluated_every=7,
    evaluations=2,
    published_rd=340.0,
)


@st.composite
def rows_of(draw, most=90):
    """Any events at all, after all models were enabled and have answered everything."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = [{"event": int(Event.ENABLE), "a": k} for k in range(MODELS)]
    rows += [
        {"event": int(Event.RESPOND), "a": k, "prompt": p} for k in range(MODELS) for p in range(PROMPTS)
    ]
    served = 0
    for event in rng.choice(8, draw(st.integers(0, most)), p=(0.3, 0.5, 0.04, 0.04, 0.03, 0.03, 0.03, 0.03)):
        rows.append(_row(int(event), rng, served) | ({"serial": served} if event == Event.SERVED else {}))
        served += event == Event.SERVED
    return [row | {"time": 1_700_000_000 + 60 * k} for k, row in enumerate(rows)]


def _row(event, rng, served):
    a = int(rng.integers(MODELS))
    row = {"event": event, "a": a, "prompt": int(rng.integers(PROMPTS))}
    if event in (Event.SERVED, Event.VOTE):
        lane = int(rng.integers(4))
        row |= {"b": int((a + rng.integers(1, MODELS)) % MODELS), "kind": int(rng.choice(len(Kind)))}
        row |= {"lane": lane, "nominal": lane, "session": int(rng.integers(-1, 5))}
    elif event == Event.EXPIRE:
        row["serial"] = int(rng.integers(served + 2))
    return row


def fresh(policy=SMALL, **rest):
    following = ArenaFold(policy, **rest)
    following.widen(*NAMES)
    return following


def folded(rows, cuts=(), **rest):
    following = fresh(**rest)
    places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for start, stop in pairwise(places):
        following.fold(Events.of(rows[start:stop]))
    return following


def one_by_one(rows):
    """The twin: every event by the doors of an arena, evaluated as the policy says."""
    standing = Standing(SMALL, *NAMES, np.zeros((MODELS, PROMPTS), dtype=bool))
    rater, history = Rater(RaterSettings(), MODELS), EvaluationHistory.under(SMALL)
    for row in rows:
        standing._fold_each(Events.of([row]))
        if row["event"] == Event.VOTE:
            rater.vote(row["a"], row["b"], row["kind"])
            if standing.votes % SMALL.evaluated_every == 0:
                standing.rank(rater.strengths(standing.enabled))
                history = history.after(evaluate(standing, time=row["time"]))
    next_votes = (standing.votes // SMALL.evaluated_every + 1) * SMALL.evaluated_every
    history = replace(history, next_votes=next_votes)
    standing.rank(rater.strengths(standing.enabled))
    twin = fresh()
    twin.standing, twin.rater, twin.history = standing, rater, history
    return twin


FEW = settings(max_examples=sized(5, 30))
cuts_of = st.lists(st.integers(0, 120), max_size=6)


@contextmanager
def bulk_from(events):
    """So many events at once take the path that is meant for many."""
    before, standing._BULK_EVENTS = standing._BULK_EVENTS, events
    try:
        yield
    finally:
        standing._BULK_EVENTS = before


@pytest.mark.no_cover
@given(rows_of(), cuts_of, st.sampled_from([0, 64]))
@settings(max_examples=sized(8, 60))
def test_in_any_pieces_and_one_by_one_are_the_same_bits(rows, cuts, bulk):
    expected = one_by_one(rows)
    with bulk_from(bulk):
        assert folded(rows, cuts).save() == folded(rows).save() == expected.save()
    assert folded(rows).digest() == expected.digest()


@given(rows_of(), cuts_of)
@FEW
def test_a_board_in_between_changes_nothing_that_comes_after(rows, cuts):
    following = fresh()
    places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for start, stop in pairwise(places):
        following.fold(Events.of(rows[start:stop]))
        following.rank()
        following.digest()
    assert following.save() == folded(rows).save()


@given(rows_of(), st.integers(0, 120))
@FEW
def test_it_goes_on_from_where_it_was_saved(rows, place):
    saved = folded(rows[:place]).save()
    restored = ArenaFold.restore(saved)
    assert restored.save() == saved
    assert state_digest(saved).hex() == restored.digest()
    restored.fold(Events.of(rows[place:]))
    assert restored.save() == folded(rows).save()


@given(rows_of(), st.integers(0, 120), st.integers(0, 120))
@FEW
def test_other_logs_have_other_digests(rows, place, length):
    rows = [*rows, _row(1, np.random.default_rng(place), 0) | {"time": 0}]
    assert folded(rows[:-1]).digest() != folded(rows).digest()


@given(rows_of(), st.integers(0, 120))
@FEW
def test_widening_is_the_same_before_and_after_saving(rows, place):
    wider = [*NAMES[0], "newcomer"], [*NAMES[1], "new prompt"]
    one = folded(rows[:place])
    other = ArenaFold.restore(one.save())
    for following in (one, other):
        following.widen(*wider)
        following.fold(Events.of(rows[place:]))
        following.fold(
            Events.of([{"event": 4, "a": 5}, {"event": 6, "a": 5, "prompt": 4}, {"event": 1, "a": 5, "b": 0}])
        )
    assert one.save() == other.save()
    assert one.standing.models[5] == "newcomer"
    assert one.rater.elo[5] != 1500.0


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.integers(1, 4),
        "fairness": st.sampled_from(["strict", "scoped"]),
        "lane_weights": st.sampled_from([(0.25, 0.25, 0.25, 0.25), (1.0, 0.0, 0.0, 0.0)]),
        "tolerance": st.sampled_from([0.01, 0.5]),
        "guard": st.sampled_from([0.0, 0.1]),
        "settling": st.integers(0, 9),
        "contenders": st.integers(1, 6),
        "prompt_floor": st.integers(1, 3),
        "top_prompt_floor": st.integers(3, 5),
        "patience": st.integers(1, 4),
        "pair_floor": st.integers(1, 4),
        "adjacent_votes": st.integers(1, 4),
        "established_votes": st.integers(0, 4),
        "published_rd": st.sampled_from([10.0, 349.0]),
        "evaluated_every": st.integers(1, 9),
        "evaluations": st.integers(1, 4),
        "form_votes": st.integers(1, 5),
    },
)


@given(rows_of(), st.integers(0, 120), CHANGES)
@settings(max_examples=sized(8, 60))
def test_another_policy_is_as_if_the_state_had_been_restored_under_it(rows, place, changes):
    policy = replace(SMALL, **changes)
    one = folded(rows[:place])
    arrays, values = decode_state(one.save())
    values["policy"] = asdict(policy)
    values["evaluations"]["in_a_row"] = policy.evaluations
    every = policy.evaluated_every
    values["evaluations"]["next_votes"] = (one.votes // every + 1) * every
    other = ArenaFold.restore(encode_state(arrays, values))
    one.under(policy)
    assert one.save() == other.save()
    for name in ("short", "need", "n_filled", "n_exhausted", "floor", "best"):
        np.testing.assert_array_equal(getattr(one.standing.cells, name), getattr(other.standing.cells, name))
    for name in ("thin", "in_band", "order"):
        np.testing.assert_array_equal(getattr(one.standing, name), getattr(other.standing, name))
    np.testing.assert_array_equal(one.standing.window.due().target, other.standing.window.due().target)
    np.testing.assert_array_equal(one.standing.window.due().tolerance, other.standing.window.due().tolerance)
    for following in (one, other):
        following.fold(Events.of(rows[place:]))
    assert one.save() == other.save()


@pytest.mark.no_cover
@given(rows_of(), st.integers(0, 120), cuts_of)
@FEW
def test_pieces_do_not_matter_when_the_policy_changes_in_between(rows, place, cuts):
    policy = replace(SMALL, evaluated_every=3, prompt_floor=1, contenders=4, evaluations=1)
    place = min(place, len(rows))
    one, other = folded(rows[:place]), folded(rows[:place], cuts)
    other.rank()
    for following in (one, other):
        following.under(policy)
    one.fold(Events.of(rows[place:]))
    for row in rows[place:]:
        other.fold(Events.of([row]))
    assert one.save() == other.save()


@pytest.mark.parametrize("name", KEPT_SHAPES)
def test_what_shapes_memory_cannot_change(name):
    following = fresh()
    before = following.digest()
    with pytest.raises(BadOption, match=name):
        following.under(replace(SMALL, **{name: _another(getattr(SMALL, name))}))
    assert following.digest() == before


def _another(value):
    return not value if isinstance(value, bool) else value + 1


@given(rows_of(most=sized(120, 200)))
@FEW
def test_old_evaluations_keep_their_outline_and_tell_the_same_of_the_board(rows):
    policy = replace(SMALL, evaluated_every=1)
    thinned, all_of_them = folded(rows, policy=policy, whole=2), folded(rows, policy=policy)
    one, other = thinned.history, all_of_them.history
    assert [(known.votes, known.time, known.holds) for known in one.evaluations] == [
        (known.votes, known.time, known.holds) for known in other.evaluations
    ]
    assert (one.official, one.official_since(), one.first_official()) == (
        other.official,
        other.official_since(),
        other.first_official(),
    )
    for model in range(MODELS):
        now = thinned.standing
        assert one.recent_delta(model, now) == other.recent_delta(model, now)
    n = len(one.evaluations)
    for number, known in enumerate(one.evaluations, start=1):
        assert bool(known.rules) == is_whole(number, n, 2)
    assert ArenaFold.restore(thinned.save()).save() == thinned.save()


def is_whole(number, n, whole):
    return any(number % 16**j == 0 and n - number < whole * 16**j for j in range(6))


@pytest.mark.parametrize("whole", [1, 3, 40])
def test_which_evaluations_stay_whole_is_a_matter_of_their_number(whole):
    kept = set()
    for n in range(1, 2000):
        kept = (kept | {n}) - set(_outline_numbers(n, whole))
        if n % 97 == 0:
            assert kept == {number for number in range(1, n + 1) if is_whole(number, n, whole)}
    assert len(kept) <= 4 * max(whole, 16)


def test_no_evaluation_at_all_is_no_number_to_keep():
    with pytest.raises(BadOption, match="whole is 0"):
        ArenaFold(SMALL, whole=0)


@given(rows_of(most=30))
@FEW
def test_several_are_saved_together(rows):
    both = [folded(rows), ArenaFold(Policy())]
    saved = ArenaFold.save_all(both)
    assert [one.digest() for one in ArenaFold.restore_all(saved)] == [one.digest() for one in both]
    assert ArenaFold.restore_all(ArenaFold.save_all([])) == []
    other_way_round = ArenaFold.save_all(both[::-1])
    assert ArenaFold.digest_all(saved) == ArenaFold.digest_all(
        ArenaFold.save_all(ArenaFold.restore_all(saved))
    )
    assert ArenaFold.digest_all(saved) != ArenaFold.digest_all(other_way_round)


@pytest.mark.parametrize(
    "ratings", [RaterSettings(), RaterSettings(Glicko2(kernel="plain", tau=0.3), elo_k=8.0)]
)
def test_a_method_comes_back_from_plain_values(ratings):
    policy = replace(SMALL, lane_weights=(0.1, 0.2, 0.3, 0.4))
    assert method_from_dict(method_to_dict(policy, ratings)) == (policy, ratings)


def test_a_method_that_names_little_has_the_defaults():
    assert method_from_dict({"policy": {}}) == (Policy(), RaterSettings())
    online = {"online": {"prior_sd": 200.0}}
    assert method_from_dict({"policy": {}, "rater": online})[1].online == OnlineBradleyTerry(prior_sd=200.0)
    assert method_to_dict(Policy()) == method_to_dict(Policy(), RaterSettings())


@pytest.mark.parametrize("said", [{"policy": {"windw": 3}}, {"policy": {}, "rater": {"k": 1}}])
def test_a_method_with_unknown_names_is_refused(said):
    with pytest.raises(BadOption, match="cannot be read"):
        method_from_dict(said)


ARRAYS = {
    "bytes": np.array([0, 255]),
    "wide": np.array([[0], [2**40]]),
    "signed": np.array([-1, 127], dtype=np.int32),
    "floats": np.array([0.1, np.nan, -0.0]),
    "nothing": np.empty((0, 3), dtype=np.uint32),
    "flags": np.array([[True, False]]),
}


def test_arrays_are_unpacked_as_they_were():
    arrays, values = decode_state(encode_state(ARRAYS, {"name": "\ud800 é"}))
    assert values == {"name": "\ud800 é"}
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()


def test_the_same_values_make_the_same_bytes_in_whatever_order_they_come():
    backward = dict(reversed(ARRAYS.items()))
    assert encode_state(ARRAYS, {"a": 1, "b": 2}) == encode_state(backward, {"b": 2, "a": 1})
    narrow = ARRAYS | {"bytes": ARRAYS["bytes"].astype(np.uint8)}
    assert encode_state(narrow, {}) != encode_state(ARRAYS, {}), "types are part of what is packed"


def test_bytes_that_were_tampered_with_are_refused():
    packed = encode_state(ARRAYS, {})
    with pytest.raises(BadOption, match="no saved state"):
        decode_state(b"something else")
    with pytest.raises(BadOption, match="cannot be unpacked"):
        decode_state(packed[:-5])
    other = encode_state(ARRAYS, {"more": 1})
    with pytest.raises(BadOption, match="digest"):
        decode_state(packed[:49] + other[49:])


SCRIPT = TESTS / "support/folded_log.py"
#: Models and matchups: with 60 models the online ratings are refitted after 300 and 600 votes.
SIZES = ((5, 600), (60, 800))
#: What the tests themselves run with must not count.
VARIABLES = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "NPY_DISABLE_CPU_FEATURES",
    "GLIBC_TUNABLES",
)


def environments():
    for core in ("Prescott", "Nehalem", "Sandybridge", "Haswell", "SkylakeX"):
        yield f"blas-{core}", {"OPENBLAS_CORETYPE": core}
    for threads in ("1", "4"):
        yield f"threads-{threads}", {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    for count in range(1, len(found) + 1):
        yield f"numpy-without-{count}", {"NPY_DISABLE_CPU_FEATURES": " ".join(found[-count:])}
    for features in ("-AVX512F", "-AVX2,-FMA,-FMA4,-AVX512F", "-AVX,-AVX2,-FMA,-FMA4,-AVX512F"):
        yield f"glibc{features}", {"GLIBC_TUNABLES": f"glibc.cpu.hwcaps={features}"}
    old = {
        "OPENBLAS_CORETYPE": "Prescott",
        "OPENBLAS_NUM_THREADS": "3",
        "NPY_DISABLE_CPU_FEATURES": " ".join(found),
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F",
    }
    yield "an-old-machine", old


ENVIRONMENTS = dict(environments())


@cache
def digests_here():
    return [digest for size in SIZES for digest in digests(*size)]


def digests_in(variables):
    """The digests of a process that is started with these variables."""
    environ = {name: value for name, value in os.environ.items() if name not in VARIABLES} | variables
    said = subprocess.run(
        [sys.executable, SCRIPT, *(str(number) for size in SIZES for number in size)],
        env=environ,
        check=True,
        capture_output=True,
        text=True,
    )
    return said.stdout.split()


@pytest.mark.slow(but="an-old-machine")
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_folds_and_publishes_the_same_bits(name):
    assert digests_in(ENVIRONMENTS[name]) == digests_here()


def test_the_variables_change_what_libraries_compute():
    """Otherwise the test above would prove nothing: a matrix product differs between two of these processors."""
    program = (
        "import hashlib, numpy as np; x = np.sin(np.arange(160.0 * 160)).reshape(160, 160); "
        "print(hashlib.sha256((x @ x).tobytes()).hexdigest())"
    )
    found = set()
    for core in ("Prescott", "Haswell"):
        environ = os.environ | {"OPENBLAS_CORETYPE": core}
        found.add(
            subprocess.run(
                [sys.executable, "-c", program], env=environ, check=True, capture_output=True, text=True
            ).stdout
        )
    assert len(found) == 2


#: Modules that folds are made of, and what each may not use.
FOLDING = (
    "ratings/kernels/exponential.py",
    "ratings/kernels/glicko2.py",
    "ratings/online_bradley_terry.py",
    "ratings/pairs.py",
    "ratings/portable_functions.py",
    "policy/state/exposure_window.py",
    "policy/state/pair_counts.py",
    "policy/state/prompt_cells.py",
    "policy/state/rating_fold.py",
    "policy/state/session_memory.py",
    "policy/state/standing.py",
    "policy/state/vote_log.py",
    "policy/validity/arena_fold.py",
    "policy/validity/pair_floors.py",
    "policy/validity/publication.py",
    "policy/validity/rules.py",
)
#: A function of these modules that rates the counts of all votes, and is no part of a fold.
NOT_FOLDING = {"_by_planes"}
FORBIDDEN = {
    *("dot", "einsum", "expm1", "inner", "linalg", "log1p"),
    *("log10", "log2", "matmul", "mean()", "pow", "power"),
} | {f"{module}.{name}" for module in ("math", "np") for name in ("exp", "log", "tanh", "cos", "sin")}


def test_folds_use_no_library_function_whose_last_bit_varies():
    for path in FOLDING:
        assert not names_in(Path(tiltyard.core.__file__).parent / path) & FORBIDDEN, path


def names_in(path):
    tree = ast.parse(path.read_text())
    tree.body = [part for part in tree.body if getattr(part, "name", None) not in NOT_FOLDING]
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            used |= {node.attr, f"{getattr(node.value, 'id', '')}.{node.attr}"}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            used.add(f"{node.func.attr}()")
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult | ast.Pow):
            used.add("pow" if isinstance(node.op, ast.Pow) else "matmul")
        elif isinstance(node, ast.ImportFrom):
            used |= set((node.module or "").split("."))
    return used
