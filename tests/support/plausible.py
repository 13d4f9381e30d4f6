"""Requests that almost make sense: what schemas cannot say, and what a careless or hostile client sends."""

import json

from hypothesis import strategies as st

#: Texts that break what is careless.
HOSTILE = (
    "",
    " ",
    "a\u0000b",
    "\ud800",
    "\u202etfel",
    "e\u0301" * 50,
    "x" * 200,
    "x" * 201,
    "😀" * 64,
    "../../etc/passwd",
    "%2e%2e%2f",
    "a/b/c",
    "'; DROP TABLE arenas; --",
    "<script>alert(1)</script>",
    "{0.__class__}",
    "%s%n",
    "a\r\nSet-Cookie: x=y",
    "\x1b[31m",
    "\x7f\x80\x9f",
    "nul",
)
#: The generator's own checks cannot read half a surrogate pair; other tests send them.
_text = st.sampled_from([text for text in HOSTILE if text.isascii() or "\ud800" not in text]) | st.text(
    max_size=20
)
_names = st.sampled_from(["model-0", "model-1", "model-3", "prompt-0", "prompt-5"]) | _text
_numbers = st.sampled_from(
    [0, 1, -1, 2, 10, 2**31 - 1, 2**31, 2**53, 2**63, 10**30, 0.5, -0.5, 1e308, 1e-308]
)
_anything = st.recursive(
    st.none() | st.booleans() | _numbers | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=5,
)
_settings = st.dictionaries(
    st.sampled_from(
        [
            "visibility",
            "undo_seconds",
            "expiry_seconds",
            "snapshot_seconds",
            "timezone",
            "order",
            "settled_family",
            "reveal",
            "session_votes",
            "shown_check",
            "ageing_hours",
            "releases",
        ]
    )
    | _text,
    st.sampled_from(
        [
            "open",
            "closed",
            "UTC",
            "Europe/Berlin",
            "conservative",
            "bradley-terry",
            "vote",
            "never",
            "always",
            30,
            1.5,
        ]
    )
    | _anything,
    max_size=3,
)
_policy = st.dictionaries(
    st.sampled_from(
        [
            "phase",
            "lane_weights",
            "window",
            "fairness",
            "tolerance",
            "settling",
            "draws",
            "contenders",
            "prompt_floor",
            "meetings",
            "session_pairs",
            "sessions_kept",
            "both_bad_over",
            "evaluated_every",
            "form_votes",
            "published_top",
        ]
    )
    | _text,
    st.sampled_from([1, 2, 4, 250, [0.25, 0.25, 0.25, 0.25], "strict", "scoped"]) | _anything,
    max_size=3,
)
_moments = st.sampled_from(
    [
        "2024-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2024-01-01",
        "now",
        1e18,
        -1,
    ]
)
_answers = st.fixed_dictionaries(
    {
        "prompt_id": st.sampled_from(["prompt-0", "new-1", "new-2"]) | _text,
        "prompt": st.sampled_from(["What about 0?", "Well?"]) | _text,
        "model": st.sampled_from(["model-0", "model-8", "model-9"]) | _text,
        "response": st.just("An answer.") | _text,
    },
    optional={
        "category": st.just("poems") | _text,
        "language": st.just("fr") | _text,
        "kind": st.sampled_from(["text", "image", "app", "x"]),
        "more": _anything,
    },
)
_incomplete = st.dictionaries(st.sampled_from(["prompt_id", "prompt", "model", "response"]), _text)


def _as_lines(rows: list[object]) -> str:
    return "\n".join(json.dumps(row) for row in rows)


BODIES = {
    "POST /api/v1/arenas": st.fixed_dictionaries(
        {"name": st.from_regex(r"\A[a-z0-9-]{1,64}\Z") | _text},
        optional={"title": _text, "settings": _settings, "policy": _policy},
    ),
    "PATCH /api/v1/arenas/{arena}": st.fixed_dictionaries(
        {}, optional={"title": _text, "settings": _settings}
    ),
    "PATCH /api/v1/arenas/{arena}/policy": _policy | _anything,
    "POST /api/v1/arenas/{arena}/responses": (
        st.lists(_answers, max_size=3) | st.lists(_answers | _incomplete | _anything, max_size=4)
    ).map(_as_lines),
    "POST /api/v1/arenas/{arena}/withdrawals": st.fixed_dictionaries(
        {"prompt": _names, "reason": _text}, optional={"model": _names}
    ),
    "POST /api/v1/arenas/{arena}/exclusions": st.fixed_dictionaries(
        {"reason": _text},
        optional={
            "sessions": st.lists(st.sampled_from([1, 2, 3, 2**63 - 1, 2**63, -1]), max_size=3),
            "voters": st.lists(_text, max_size=2),
            "release": _text,
            "matchups": st.lists(st.just("0-" + "A" * 32) | _text, max_size=2),
            "since": _moments,
            "until": _moments,
            "source": st.sampled_from(["human", "llm-judge", "x"]),
        },
    ),
    "POST /api/v1/arenas/{arena}/matchups": st.fixed_dictionaries({}, optional={"ahead": st.booleans()}),
    "POST /api/v1/arenas/{arena}/live": st.fixed_dictionaries(
        {"prompt": _text}, optional={"category": _text}
    ),
    "POST /api/v1/live/{matchup}/turns": st.fixed_dictionaries({"prompt": _text}),
    "POST /api/v1/live/{matchup}/turn-vote": st.fixed_dictionaries(
        {"turn": st.integers(0, 3), "winner": st.sampled_from(["model_a", "tie", "x"])}
    ),
    "POST /api/v1/matchups/{matchup}/vote": st.fixed_dictionaries(
        {"winner": st.sampled_from(["model_a", "model_b", "tie", "both_bad", "x"])},
        optional={
            "reveal": st.booleans(),
            "label": st.sampled_from(["win", "lean", "tie", "both_bad", "inconsistent"]),
            "shown": st.fixed_dictionaries({"a": _numbers, "b": _numbers}),
            "pref": st.sampled_from([0, 0.5, 1, 2, 1e-320]),
            "judge_model": _text,
        },
    ),
    "POST /api/v1/matchups/{matchup}/report": st.fixed_dictionaries(
        {"reason": st.sampled_from(["broken", "harmful", "other", "x"])}, optional={"note": _text}
    ),
}
QUERIES = {
    "GET /api/v1/arenas/{arena}/responses": {
        "model": st.sampled_from(["model-0", "model-1", "model-2", "none", *HOSTILE[:3]]),
        "prompt": st.sampled_from(["prompt-0", "prompt-1", "prompt-2", "none", *HOSTILE[:3]]),
    },
    "GET /api/v1/arenas/{arena}/board": {"category": _text, "language": _text},
    "GET /api/v1/arenas/{arena}/battles": {
        "format": st.sampled_from(["jsonl", "csv", "parquet", "x"]),
        "table": st.sampled_from(["voters", "ordered", "both", "x"]),
        "snapshot": st.sampled_from(["0" * 64, *HOSTILE[:3]]),
    },
    "GET /api/v1/arenas/{arena}/battles/exact": {
        "format": st.sampled_from(["jsonl", "csv", "parquet", "x"]),
        "release": _text,
        "upto": _numbers,
    },
    "GET /api/v1/arenas/{arena}/snapshots": {"generation": _numbers, "position": _numbers},
}
