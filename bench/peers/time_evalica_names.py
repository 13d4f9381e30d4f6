"""Times evalica's Elo as its documentation shows it: lists of names and winners."""

from __future__ import annotations

from pathlib import Path

import evalica
import numpy as np

from timing import ELO_K, PERMUTATIONS, asked, load, repeat, report

MEASURED_PERMUTATIONS = 10
WINNERS = (evalica.Winner.X, evalica.Winner.Y, evalica.Winner.Draw)


def time_elo(data: Path) -> None:
    battles = load(data, "medium")
    a, b = (battles["names"][battles[side]].tolist() for side in "ab")
    winner = [WINNERS[code] for code in battles["winner"].tolist()]
    rng = np.random.default_rng(1)

    def permutations() -> None:
        for _ in range(MEASURED_PERMUTATIONS):
            order = rng.permutation(len(a)).tolist()
            shuffled = ([column[k] for k in order] for column in (a, b, winner))
            evalica.elo(*shuffled, k=ELO_K)

    report(
        peer="evalica-names",
        version=evalica.__version__,
        case="elo",
        n=len(a) * PERMUTATIONS,
        runs=repeat(permutations, most=5),
        scaled_from=len(a) * MEASURED_PERMUTATIONS,
        note="lists of names; one call a permutation",
    )


if __name__ == "__main__":
    _, folder = asked(["elo"])
    time_elo(folder)
