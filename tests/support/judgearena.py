"""Files in the shape of JudgeArena's battles and ratings, and a reader that knows its words and no others."""

import json
from pathlib import Path

import numpy as np

WINNERS = {"model_a": (1.0, 0.0), "model_b": (0.0, 1.0), "tie": (0.5, 0.5), "tie (bothbad)": (0.5, 0.5)}
SOURCES = ("llm-judge", "human")
REPORT = {"arena": str, "model": str, "judge_model": str, "n_bootstraps": int, "seed": int, "ratings": list}
ENTRY = {"model": str, "rating": float, "ci_low": float, "ci_high": float, "n_battles": int, "source": str}
PEOPLE = ("ash", "elm", "fir", "oak")
CANDIDATE, JUDGE, ARENA = "maker/candidate-1b", "maker/judge-8b", "LMArena-100k"


def human_rows(n: int, both_bad: str = "tie (bothbad)") -> list[dict[str, object]]:
    """Votes of people, every seventh of which finds both bad, with what was asked and answered."""
    rows = []
    for k in range(n):
        a, b = PEOPLE[k % 4], PEOPLE[(k + 1 + k // 4 % 3) % 4]
        winner = both_bad if k % 7 == 0 else ("model_a", "model_b", "tie", "model_a", "model_b")[k * 3 % 5]
        rows.append(
            {
                "model_a": a,
                "model_b": b,
                "winner": winner,
                "source": "human",
                "question_id": f"q{k:03d}",
                "judge_model": None,
                "prompt": f"How much is {k} and {k}?",
                "response_a": f"{a} thinks {2 * k}.",
                "response_b": f"{b} thinks {2 * k + 1}.",
            }
        )
    return rows


def judged_rows(n: int) -> list[dict[str, object]]:
    """Battles of the candidate, decided by a judge."""
    return [
        {
            "model_a": CANDIDATE,
            "model_b": PEOPLE[k % 4],
            "winner": "model_a" if k % 3 == 0 else "model_b",
            "source": "llm-judge",
            "question_id": f"q{k:03d}",
            "judge_model": JUDGE,
        }
        for k in range(n)
    ]


def read_strictly(folder: Path) -> tuple[list[dict], dict]:
    """The battles and the ratings of a folder; anything but JudgeArena's own words is refused."""
    battles = [json.loads(line) for line in (folder / "battles.jsonl").read_text().splitlines()]
    for battle in battles:
        assert battle["winner"] in WINNERS, battle["winner"]
        assert battle["source"] in SOURCES
        assert isinstance(battle["model_a"], str)
        assert isinstance(battle["model_b"], str)
        assert isinstance(battle["judge_model"], str) == (battle["source"] == "llm-judge")
    report = json.loads((folder / "elo_ratings.json").read_text())
    assert {name: type(report.get(name)) for name in REPORT} == REPORT
    for entry in report["ratings"]:
        assert {name: type(entry.get(name)) for name in ENTRY} == ENTRY
        assert entry["source"] in ("evaluated", "human")
    return battles, report


def rated_again(battles: list[dict]) -> dict[str, float]:
    """Bradley-Terry strengths around 1000 by Hunter's minorisation: every tie, of either kind, is half a win each."""
    names = sorted({battle[side] for battle in battles for side in ("model_a", "model_b")})
    won, met = np.zeros(len(names)), np.zeros((len(names), len(names)))
    for battle in battles:
        a, b = names.index(battle["model_a"]), names.index(battle["model_b"])
        met[a, b] += 1
        met[b, a] += 1
        for side, points in zip((a, b), WINNERS[battle["winner"]], strict=True):
            won[side] += points
    strength = np.ones(len(names))
    for _ in range(20_000):
        strength = won / (met / (strength[:, None] + strength)).sum(axis=1)
        strength /= np.exp(np.log(strength).mean())
    return dict(zip(names, 1000.0 + 400.0 * np.log10(strength), strict=True))
