"""Times evalica through its public functions."""

from __future__ import annotations

from pathlib import Path

import evalica
import numpy as np
import pandas as pd

from timing import ELO_K, PERMUTATIONS, asked, farthest, load, repeat, report

MEASURED_PERMUTATIONS = 10
WINNERS = np.array([evalica.Winner.X, evalica.Winner.Y, evalica.Winner.Draw], np.uint8)


def time_bt(data: Path) -> None:
    """Codes as arrays with a ready index: the quickest input its functions take."""
    battles = load(data, "large")
    a, b, winner = battles["a"], battles["b"], WINNERS[battles["winner"]]
    index = pd.RangeIndex(len(battles["names"]))
    fit = evalica.bradley_terry(a, b, winner, index=index)
    elo = 400.0 * np.log10(fit.scores.reindex(index).to_numpy())
    runs = repeat(lambda: evalica.bradley_terry(a, b, winner, index=index))
    note = f"arrays and an index; {farthest(elo, data / 'exact-bt.npy')}"
    report(peer="evalica", version=evalica.__version__, case="bt", n=len(a), runs=runs, note=note)


def time_bt_names(data: Path) -> None:
    """Names as lists, as its documentation shows; making the lists is not counted."""
    battles = load(data, "large")
    a, b = (battles["names"][battles[side]].tolist() for side in "ab")
    winner = [evalica.Winner(code) for code in WINNERS[battles["winner"]].tolist()]
    runs = repeat(lambda: evalica.bradley_terry(a, b, winner))
    note = "lists of names, made beforehand"
    report(peer="evalica", version=evalica.__version__, case="bt-names", n=len(a), runs=runs, note=note)


def time_elo(data: Path) -> None:
    battles = load(data, "medium")
    a, b, winner = battles["a"], battles["b"], WINNERS[battles["winner"]]
    index = pd.RangeIndex(len(battles["names"]))
    rng = np.random.default_rng(1)

    def permutations() -> None:
        for _ in range(MEASURED_PERMUTATIONS):
            order = rng.permutation(len(a))
            evalica.elo(a[order], b[order], winner[order], index=index, k=ELO_K)

    report(
        peer="evalica",
        version=evalica.__version__,
        case="elo",
        n=len(a) * PERMUTATIONS,
        runs=repeat(permutations, most=5),
        scaled_from=len(a) * MEASURED_PERMUTATIONS,
        note="arrays and an index; one call a permutation",
    )


if __name__ == "__main__":
    timed = {"bt": time_bt, "bt-names": time_bt_names, "elo": time_elo}
    chosen, folder = asked(list(timed))
    for name in chosen:
        timed[name](folder)
