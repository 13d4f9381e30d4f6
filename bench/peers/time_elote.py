"""Times elote's Glicko-2, vote by vote, on the first votes only."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version

from elote import Glicko2Competitor

from timing import asked, load, repeat, report

MEASURED_VOTES = 50_000
NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)  # one moment for all votes: no rating decays


def main() -> None:
    _, data = asked(["glicko2"])
    battles = load(data, "large")
    n, models = len(battles["a"]), len(battles["names"])
    votes = min(n, MEASURED_VOTES)
    a, b, winner = (battles[column][:votes].tolist() for column in ("a", "b", "winner"))

    def rate() -> None:
        rated = [Glicko2Competitor(initial_time=NOON) for _ in range(models)]
        for left, right, outcome in zip(a, b, winner, strict=True):
            if outcome == 0:
                rated[left].beat(rated[right], match_time=NOON)
            elif outcome == 1:
                rated[right].beat(rated[left], match_time=NOON)
            else:
                rated[left].tied(rated[right], match_time=NOON)

    report(
        peer="elote",
        version=version("elote"),
        case="glicko2",
        n=n,
        runs=repeat(rate, most=5),
        scaled_from=votes,
        note="the volatility by the paper's own iteration",
    )


if __name__ == "__main__":
    main()
