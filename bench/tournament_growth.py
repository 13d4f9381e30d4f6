"""How a tournament's cost grows with its questions: `python bench/tournament_growth.py --out RESULTS.md`.

Plans tournaments of 10,000, 100,000 and 1,000,000 questions (20 models, three dimensions), runs them with a
scripted judge that answers at once, then rates and publishes from the cache, and verifies; each step in a
process of its own. Above 200,000 questions the cache is filled without a run, which would take an hour.
CPU seconds and peak memory are noted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests")]

from support.arranged import arrange  # noqa: E402
from timing import ONE_THREAD  # noqa: E402

MODELS, DIMENSIONS = 20, 3
EACH = MODELS * (MODELS - 1) // 2 * DIMENSIONS * 2
STEPS = ("plan", "run", "fill", "rate", "verify")
#: Above so many questions the cache is filled without a run.
RUN_QUESTION_LIMIT = 200_000


@dataclass(frozen=True)
class Step:
    questions: int
    name: str
    cpu_seconds: float
    peak_mib: float


def do(step: str, folder: Path) -> None:
    os.environ["TILTYARD_HOME"] = str(folder / "home")
    {"plan": plan, "run": run, "fill": fill, "rate": rate, "verify": verify}[step](folder)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([time.process_time(), usage.ru_maxrss / 1024.0]))


def prepared_run(folder: Path):
    from tiltyard.tournaments.tournament_run import RunRequest, prepare_run

    return prepare_run(RunRequest(config_path=folder / "tournament.yaml", mode="pilot"), asking=False)


def plan(folder: Path) -> None:
    """Exactly what `tiltyard plan` does."""
    from tiltyard.judges.ledger import Ledger
    from tiltyard.tournaments.cost_estimate import estimate_plan

    prepared = prepared_run(folder)
    with closing(Ledger(prepared.databases.ledger)) as ledger:
        found = estimate_plan(prepared.plan, ledger)
    assert found.calls == len(prepared.plan)


def fill(folder: Path) -> None:
    """A reply to every question: what judges would have said, by hash."""
    from tiltyard.judges.ledger import Ledger, _packed

    prepared = prepared_run(folder)
    rows: list[dict] = []
    with closing(Ledger(prepared.databases.ledger)) as ledger:

        def write() -> None:
            with ledger._database.transaction():
                ledger._database.change_many(ledger._sql["add_reply"], rows)
            rows.clear()

        for question in prepared.plan.questions():
            key = prepared.plan.key(question)
            rows.append({"request_key": key, "ask": 0, "body": _packed(reply(key)), "received_at": 0.0})
            if len(rows) == 5000:
                write()
        write()


def reply(key: str) -> dict:
    """A verdict by the hash of a request."""
    drawn = int(key[:4], 16) / 65536
    step = "A=B" if abs(drawn - 0.5) < 0.1 else "A>B" if drawn < 0.5 else "B>A"
    text = json.dumps({"reasoning": "It answers better. " * 8, "verdict": step, "both_bad": False})
    return {"text": text, "stop": "end", "usage": {"input": 900, "output": 60}}


def run(folder: Path) -> None:
    """Exactly what `tiltyard run` does, with a judge in the same process that answers at once."""
    from tiltyard.judges.providers.local_replies import ReplayProvider
    from tiltyard.tournaments.tournament_run import run_tournament

    async def complete(_provider: object, body: dict) -> dict:
        return reply(hashlib.sha256(body["user"].encode()).hexdigest())

    ReplayProvider.complete = complete
    finished = run_tournament(prepared_run(folder), Silent(), output_dir=folder / "run")
    assert set(finished.states) == {"ok"}, finished.states


class Silent:
    def begun(self, *_: object, **__: object) -> None: ...
    def tick(self, _: object) -> None: ...
    def note(self, _: str) -> None: ...
    def rating(self) -> None:
        return None


def rate(folder: Path) -> None:
    """Exactly what `tiltyard run --skip-judging` does."""
    from tiltyard.tournaments.tournament_run import run_tournament

    run_tournament(prepared_run(folder), Silent(), output_dir=folder / "out", skip_judging=True)


def verify(folder: Path) -> None:
    from tiltyard.runs.run_verification import verify_run

    found = verify_run(folder / "out")
    assert found.passed, found.summary


def measured(prompts: int) -> list[Step]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "nothing.jsonl").write_text("")
        judge = {"provider": "replay", "base_url": "nothing.jsonl"}
        arrange(
            folder,
            models=MODELS,
            prompts=prompts,
            dimensions=DIMENSIONS,
            judge=judge,
            modes={"pilot": {"prompts": "all"}},
            elo={"n_perms": 100},
            ratings={"n_bootstraps": 100},
        )
        found = []
        left_out = "run" if prompts * EACH > RUN_QUESTION_LIMIT else "fill"
        for step in (name for name in STEPS if name != left_out):
            command = [sys.executable, str(Path(__file__).resolve()), "--step", step, "--folder", name]
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, env=os.environ | ONE_THREAD
            )
            cpu, peak = json.loads(done.stdout.splitlines()[-1])
            found.append(Step(prompts * EACH, step, cpu, peak))
            print(found[-1], flush=True)
        return found


def report(steps: list[Step]) -> str:
    lines = [
        "# Growth of tournaments, measured",
        "",
        (
            f"{datetime.now(UTC):%Y-%m-%d}, by `python bench/tournament_growth.py`: {MODELS} models, {DIMENSIONS} dimensions, "
            "one judge, both orders; one thread, the whole process, start included. `plan` is `tiltyard plan`, `run` is "
            "`tiltyard run` with a judge in the same process that answers at once and costs nothing, `rate` is "
            "`tiltyard run --skip-judging` with all its artifacts, `verify` is `tiltyard verify`."
        ),
        "",
        "| questions | step | CPU seconds | µs a question | peak MiB |",
        "|---:|---|---:|---:|---:|",
    ]
    lines += [
        f"| {one.questions:,} | {one.name} | {one.cpu_seconds:.1f} | {1e6 * one.cpu_seconds / one.questions:.0f} | {one.peak_mib:.0f} |"
        for one in steps
        if one.name != "fill"
    ]
    lines += ["", "![CPU time and memory against questions](../../images/tournament-growth.svg)"]
    return "\n".join(lines) + "\n"


def plot(steps: list[Step], path: Path) -> None:
    import altair as alt

    rows = [
        {"questions": one.questions, "step": one.name, "figure": figure, "value": value}
        for one in steps
        if one.name != "fill"
        for figure, value in (("CPU seconds", one.cpu_seconds), ("peak MiB", one.peak_mib))
    ]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("questions:Q", scale=alt.Scale(type="log")),
            y=alt.Y("value:Q", scale=alt.Scale(type="log"), title=None),
            color=alt.Color("step:N", title=None),
        )
        .properties(width=280, height=220)
        .facet(column=alt.Column("figure:N", title=None))
        .resolve_scale(y="independent")
    )
    chart.save(str(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--questions", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.step:
        do(options.step, options.folder)
        return
    steps = [one for questions in options.questions for one in measured(round(questions / EACH))]
    text = report(steps)
    print(text)
    if options.out:
        options.out.write_text(text)
    if options.plot:
        plot(steps, options.plot)


if __name__ == "__main__":
    main()
