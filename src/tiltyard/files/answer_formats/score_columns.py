"""Scores in the columns of a table: which columns they are, and how their cells are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from tiltyard.files.answer import finite_number
from tiltyard.files.answer_formats.answer_notes import UNREADABLE_SCORE_NOTE, UNSCORED_NOTE

#: Columns that are scores without being called so.
_USUAL_METRICS = frozenset(
    {"accuracy", "acc", "acc_norm", "exact_match", "em", "f1", "bleu", "chrf", "rouge1", "rouge2", "rougel"}
    | {"wer", "cer", "perplexity", "pass@1", "passed", "is_correct"}
)
#: Letters are those of Inspect, as it writes them; words are in any case.
_LETTERS = {"C": 1.0, "I": 0.0}
_WORDS = {
    **dict.fromkeys(("true", "yes", "pass", "passed", "correct"), 1.0),
    **dict.fromkeys(("false", "no", "fail", "failed", "incorrect"), 0.0),
}
_MISSING = frozenset({"", "-", "n/a", "na", "nan", "none", "null"})
_EXAMPLE_CHARACTERS = 40


def score_columns(columns: Collection[str], *, usual: bool) -> dict[str, str]:
    """The metric of each column that is a score: ``score``, ``scores.NAME`` and, if ``usual``, usual metrics."""
    found = {}
    for column in columns:
        if column.lower() == "score":
            found[column] = "score"
        elif column.startswith("scores.") and len(column) > len("scores."):
            found[column] = column.removeprefix("scores.")
        elif usual and column.lower() in _USUAL_METRICS:
            found[column] = column
    return found


def read_scores(
    record: Mapping[str, object], columns: Mapping[str, str], tally: Counter[str]
) -> dict[str, float]:
    """The scores of a record; cells without one are counted, with an example of what is no number."""
    found = {}
    for column, metric in columns.items():
        value = record.get(column)
        number = read_score(value)
        if number is not None:
            found[metric] = number
        elif value is None or isinstance(value, float) or str(value).strip().lower() in _MISSING:
            tally[UNSCORED_NOTE] += 1
        else:
            example = f"{UNREADABLE_SCORE_NOTE}, such as {str(value)[:_EXAMPLE_CHARACTERS]!r}"
            tally[next((one for one in tally if one.startswith(UNREADABLE_SCORE_NOTE)), example)] += 1
    return found


def read_score(value: object) -> float | None:
    """A number, a truth value, a word for right or wrong, a percentage, or a number with a decimal comma.

    ``1,234`` may be two numbers, and is none.
    """
    if not isinstance(value, str):
        return finite_number(value)
    text = value.strip()
    known = _LETTERS.get(text, _WORDS.get(text.lower()))
    if known is not None:
        return known
    whole, comma, part = text.removesuffix("%").strip().partition(",")
    if comma and ("." in whole or not part.isdigit() or (len(part) == 3 and whole.lstrip("+-") != "0")):
        return None
    try:
        number = float(f"{whole}.{part}" if comma else whole)
    except ValueError:
        return None
    return finite_number(number / 100.0 if text.endswith("%") else number)
