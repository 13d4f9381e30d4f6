"""Typed examples of the public names: checked by the type checker, never run."""

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, assert_type

import numpy as np

import tiltyard
from tiltyard import (
    Answer,
    Battle,
    Board,
    BoardTable,
    BradleyTerry,
    CheckedLog,
    Elo,
    Finding,
    Glicko2,
    Glicko2State,
    Label,
    OnlineBradleyTerry,
    OnlineState,
    Outcome,
    RatedBoard,
    Ratings,
    Row,
    Table,
    TiltyardError,
)
from tiltyard.core.policy.state.events import Events
from tiltyard.core.policy.validity.report.report_builder import ValidityReport
from tiltyard.policy import Choice, Policy, Rater, RaterSettings, Standing, choose, evaluate
from tiltyard.wire.live import ShownFrame
from tiltyard.wire.voting import Ended, Matchup

assert_type(tiltyard.__version__, str)

battle = Battle(model_a="x", model_b="y", winner=Outcome.MODEL_A, label=Label.LEAN, pref=0.7)
assert_type(battle.winner, Outcome)
assert_type(battle.label, Label | None)
assert_type(battle.to_dict(), dict[str, object])
assert_type(Battle.from_dict({"model_a": "x", "model_b": "y", "winner": "tie"}), Battle)
Battle("x", "y", Outcome.TIE)  # type: ignore[call-arg]
battle.pref = 0.5  # type: ignore[misc]

tiltyard.write_battles("battles.jsonl", [battle])
tiltyard.write_battles(Path("battles.parquet"), iter([battle]))
assert_type(tiltyard.read_battles(Path("battles.jsonl")), Iterator[Battle])
assert_type(tiltyard.open_battles("battles.csv", columns={"winner": "who"}).battles(), Iterator[Battle])

answer = Answer(prompt_id="p", prompt="?", model="x", response="!")
tiltyard.write_answers("answers.jsonl", [answer])
assert_type(tiltyard.read_answers("answers.jsonl"), Iterator[Answer])
assert_type(tiltyard.open_answers("log.eval", model="x").answers(), Iterator[Answer])
assert_type(tiltyard.open_answers(Path("log.eval")).notes, tuple[tuple[str, int], ...])
assert_type(answer.scores, Mapping[str, float])

table = tiltyard.read_table("battles.jsonl", Path("more.parquet"), style=["length"])
assert_type(table, Table)
assert_type(Table.from_battles([battle]), Table)
assert_type(table.merge(table), Table)

ratings = BradleyTerry(ties="davidson", level=0.9)(table)
assert_type(ratings, Ratings)
assert_type(ratings.extras.get("tie_parameter"), float | None)
assert_type(Elo(k=24.0)(table), Ratings)
assert_type(Glicko2()(table), Ratings)
assert_type(ratings.to_columns(), dict[str, list[Any]])
assert_type(ratings.findings, tuple[Finding, ...])
BradleyTerry(ties="most")  # type: ignore[arg-type]
Elo(interval="sandwich")  # type: ignore[arg-type]

state = Glicko2().initial(["x", "y"])
assert_type(state, Glicko2State)
assert_type(Glicko2().fold(state, table.log()), Glicko2State)
assert_type(Glicko2State.from_dict(state.to_dict()), Glicko2State)

ranks = tiltyard.rank_models(ratings, level=0.9)
board = tiltyard.make_board(ratings, ranks)
assert_type(board, Board)
assert_type(board.rows, tuple[Row, ...])
assert_type(board.rows[0].rating, float | None)
assert_type(board.rows[0].both_bad_rate, float | None)

assert_type(tiltyard.compare_models(table, "x", "y").sentence, str)
tiltyard.ab("old.eval", str.upper, model_version="1", judge="m", prompts=["?", {"prompt": "!"}])
several = tiltyard.ab("old.eval", "b.eval", "c.eval", score=["accuracy"], guard={"safety": 0.02})
assert_type(several.comparisons, tuple[tiltyard.ABReport, ...])
assert_type(tiltyard.check_fit(table).dispersion, float)
prediction = tiltyard.predict_ahead(table)
if prediction is not None:
    assert_type(prediction.log_loss, float)

try:
    tiltyard.read_table("nowhere")
except TiltyardError as error:
    assert_type(error, TiltyardError)

standing = Standing(Policy(fairness="scoped"), ["x", "y"], ["p"])
rater = Rater(RaterSettings(), 2)
standing.rank(rater.strengths(standing.enabled))
choice = choose(standing, np.random.default_rng(0), session=1)
assert_type(choice, Choice)
assert_type(choice.propensity, float)
assert_type(standing.serve(choice.left, choice.right, choice.prompt), int)
assert_type(evaluate(standing).rules[0].missing, int | None)
assert_type(OnlineBradleyTerry().initial(2), OnlineState)
Policy(fairness="fair")  # type: ignore[arg-type]

played = tiltyard.tournament(answers=["a.jsonl", answer, {"prompt_id": "p"}], judge="gpt-5", budget_usd=2.0)
assert_type(played, tiltyard.TournamentResult)
assert_type(played.boards["preference"], Board)
assert_type(played.findings, tuple[Finding, ...])
assert_type(played.cost_usd, float | None)
assert_type(played.to_dict(), dict[str, Any])
tiltyard.tournament("tournament.yaml", mode="headline", sample_pairs=100)
tiltyard.tournament("tournament.yaml", budget="2")  # type: ignore[call-arg]
rated_board = tiltyard.rate([{"model_a": "x", "model_b": "y", "winner": "tie"}], by="category", level=0.9)
assert_type(rated_board, RatedBoard)
assert_type(rated_board.groups["code"].rows, tuple[Row, ...])
assert_type(rated_board.findings, tuple[Finding, ...])
assert_type(rated_board.to_json(), str)
assert_type(rated_board.compare("x", "y").sentence, str)
assert_type(tiltyard.rate("battles.jsonl", method=Elo(k=8), columns={"model_a": "left"}), RatedBoard)
assert_type(tiltyard.verify("run"), tiltyard.Verification)
assert_type(tiltyard.simulate(models=4, prompts=10, votes=500).to_dict(), dict[str, object])


def report(events: Events) -> None:
    assert_type(tiltyard.validity_report(events, ["x", "y"], ["p"], Policy()), ValidityReport)


assert_type(rated_board.pairwise(), BoardTable)
assert_type(rated_board.over_time("week", cumulative=False).to_columns(), dict[str, list[Any]])
assert_type(rated_board.write("run", arena="x"), Path)
assert_type(rated_board.publish(Path("site"), title="X", add=True), Path)
rated_board.over_time(week=True)  # type: ignore[call-arg]
picture: str = rated_board.heatmap(top=10)
checked = tiltyard.check("battles.jsonl", skip_invalid=True, rename=["x"])
assert_type(checked, CheckedLog)
assert_type(checked.to_dict(), dict[str, Any])
tiltyard.rate(
    tiltyard.battles_from_scores({"item": [1], "x": [0.5], "y": [1.0]}, margin=0.1), **checked.options
)
tiltyard.check("battles.jsonl", level=0.9)  # type: ignore[call-arg]

with tiltyard.Client("http://127.0.0.1:8420", patience=5) as voter:
    assert_type(voter.next_matchup("demo", ahead=True), Matchup)
    assert_type(voter.open_matchups("demo"), list[Matchup])
    assert_type(voter.vote("m", "tie", pref=0.5), Ended)
    assert_type(voter.live_frames("m"), Iterator[ShownFrame])
    assert_type(voter.save_battles("demo", "battles.csv", format="csv"), Path)
    voter.vote("m")  # type: ignore[call-arg]
    voter.vote("m", "tie", winner_of="x")  # type: ignore[call-arg]


async def compare() -> None:
    assert_type(await tiltyard.ab_async("a.eval", "b.eval"), tiltyard.ABReport)
    assert_type(await tiltyard.tournament_async("tournament.yaml"), tiltyard.TournamentResult)


async def vote() -> None:
    async with tiltyard.AsyncClient("http://127.0.0.1:8420") as voter:
        assert_type(await voter.next_matchup("demo"), Matchup)
        assert_type(voter.live_frames("m"), AsyncIterator[ShownFrame])
        assert_type(await voter.save_battles("demo", "battles.csv"), Path)
        await voter.vote("m", 1)  # type: ignore[arg-type]
