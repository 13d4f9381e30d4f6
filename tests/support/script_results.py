"""What a published tournament script makes of its judgments, written once more: it shares no code with the package.

A judgment is a line of `verdicts/<dimension>.jsonl`. Only the standard library and NumPy.
"""

import csv
import io
import json

import numpy as np

COLUMNS = ["dimension", "entrant_a", "entrant_b", "a_wins", "b_wins", "ties", "inconsistent"]


def read_judgments(folder, dimensions):
    """The judgments of each dimension, in the order of the file."""
    found = {}
    for dimension in dimensions:
        with (folder / "verdicts" / f"{dimension}.jsonl").open(encoding="utf-8") as lines:
            found[dimension] = [json.loads(line) for line in lines]
    return found


def reconciled(raw):
    """Winner and inconsistency by the two replies of one judge; A is what was shown first."""
    winners = []
    for reply in raw:
        shown = [reply["entrant_a"], reply["entrant_b"]]
        if reply["position_swap"]:
            shown.reverse()
        winners.append(dict(zip("AB", shown, strict=True)).get(reply["verdict"]))
    first, second = winners
    return (first, False) if first == second else (None, True)


def play(matches, k, start, permutations, seed):
    """Ratings after each permutation, as rows of a table whose columns are the sorted entrants."""
    entrants = sorted({name for a, b, _ in matches for name in (a, b)})
    draws = np.random.default_rng(seed)
    rows = []
    for _ in range(permutations):
        rating = dict.fromkeys(entrants, start)
        for place in draws.permutation(len(matches)):
            a, b, winner = matches[place]
            expected = 1 / (1 + 10 ** ((rating[b] - rating[a]) / 400))
            score = 1.0 if winner == a else 0.0
            rating[a], rating[b] = rating[a] + k * (score - expected), rating[b] - k * (score - expected)
        rows.append([rating[name] for name in entrants])
    return entrants, np.array(rows)


def entries(entrants, rows):
    found = {}
    for column, name in enumerate(entrants):
        values = rows[:, column]
        mean = values.mean()
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        found[name] = {
            "entrant_id": name,
            "mean": mean,
            "sem": error,
            "ci95_low": mean - 1.96 * error,
            "ci95_high": mean + 1.96 * error,
        }
    return found


def elo(judgments, k, ks, start, permutations, seed):
    """The content of `elo_results.json`, and the arrays of `elo_per_perm.npz`."""
    results = {"default_k": k, "primary": {}, "k_sensitivity": {}, "n_decisive_matches": {}}
    arrays = {}
    for dimension, rows in judgments.items():
        matches = [(one["entrant_a"], one["entrant_b"], one["winner"]) for one in rows if one["winner"]]
        results["n_decisive_matches"][dimension] = len(matches)
        results["primary"][dimension], results["k_sensitivity"][dimension] = {}, {}
        if not matches:
            continue
        entrants, traces = play(matches, k, start, permutations, seed)
        arrays[f"{dimension}__data"], arrays[f"{dimension}__entrants"] = traces, np.array(entrants)
        results["primary"][dimension] = entries(entrants, traces)
        for other in ks:
            played = play(matches, other, start, permutations, seed)
            results["k_sensitivity"][dimension][str(float(other))] = entries(*played)
    return results, arrays


def winrates(judgments):
    """The rows of `pairwise_winrates.csv`, the header first, as text."""
    rows = [COLUMNS]
    for dimension, found in judgments.items():
        pairs = sorted({tuple(sorted((one["entrant_a"], one["entrant_b"]))) for one in found})
        for a, b in pairs:
            mine = [one for one in found if {one["entrant_a"], one["entrant_b"]} == {a, b}]
            wins = [sum(one["winner"] == name for one in mine) for name in (a, b)]
            ties = sum(one["winner"] is None for one in mine)
            rows.append([dimension, a, b, *map(str, (*wins, ties, sum(one["inconsistent"] for one in mine)))])
    return rows


def read_winrates(text):
    return [row[: len(COLUMNS)] for row in csv.reader(io.StringIO(text))]


def table(results):
    """The summary as it is printed."""
    dimensions = list(results["primary"])
    entrants = sorted({name for found in results["primary"].values() for name in found})
    lines = ["", "=" * 72, "Elo summary (mean ± SEM)", "=" * 72]
    if not entrants:
        return "\n".join([*lines, "(no Elo results)"])
    head = "entrant".ljust(28) + "".join(" | " + name.rjust(22) for name in dimensions)
    lines += [head, "-" * len(head)]
    for name in entrants:
        cells = []
        for dimension in dimensions:
            found = results["primary"][dimension].get(name)
            cells.append("—" if found is None else "%8.1f ± %5.2f" % (found["mean"], found["sem"]))  # noqa: UP031
        lines.append(name.ljust(28) + "".join(" | " + cell.rjust(22) for cell in cells))
    counts = ", ".join(f"{name}={results['n_decisive_matches'][name]}" for name in dimensions)
    return "\n".join([*lines, "-" * len(head), f"decisive matches: {counts}"])
