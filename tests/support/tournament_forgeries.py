"""Forgeries of a tournament's folder: each changes one thing; the hashes are rewritten afterwards."""

import json
import shutil

import numpy as np

from support.judged_runs import STEPS
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import QuestionState, VerdictForm
from tiltyard.files import open_battles, read_battles, write_battles
from tiltyard.files.battle_tables import copy_battles
from tiltyard.files.parquet_tables import (
    read_columns,
    read_rows,
    write_columns,
    write_row_table,
)
from tiltyard.runs.manifest import json_line
from tiltyard.runs.tournament_manifest import ATTEMPT_COLUMNS


def edit(name, change):
    def forge(run):
        document = json.loads((run / name).read_text())
        change(document)
        (run / name).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    return forge


def row(name, place, change):
    """One line of a file of rows, changed."""

    def forge(run):
        lines = (run / name).read_bytes().splitlines(keepends=True)
        found = json.loads(lines[place])
        change(found)
        lines[place] = json.dumps(found, ensure_ascii=False).encode() + b"\n"
        (run / name).write_bytes(b"".join(lines))

    return forge


def rows(name, change):
    def forge(run):
        lines = (run / name).read_bytes().splitlines(keepends=True)
        (run / name).write_bytes(b"".join(change(lines)))

    return forge


def text(name, old, new):
    def forge(run):
        before = (run / name).read_text()
        assert old in before
        (run / name).write_text(before.replace(old, new, 1))

    return forge


def manifest(**fields):
    return edit("manifest.json", lambda document: document.update(fields))


def parameter(part, **fields):
    return edit("manifest.json", lambda document: document[part].update(fields))


def attempts(change):
    def forge(run):
        found = list(read_rows(run / "attempts.parquet", ATTEMPT_COLUMNS))
        change(found)
        write_row_table(run / "attempts.parquet", ATTEMPT_COLUMNS, found)

    return forge


def attempt(**fields):
    return attempts(lambda found: found[3].update(fields))


def both(*forges):
    def forge(run):
        for one in forges:
            one(run)

    return forge


def verdicts(run):
    return [json.loads(line) for line in (run / "questions/factuality.jsonl").read_text().splitlines()]


def opinion(change):
    """The first verdict that is ok, changed."""

    def forge(run):
        place = next(k for k, one in enumerate(verdicts(run)) if one["state"] == "ok")
        row("questions/factuality.jsonl", place, change)(run)

    return forge


def turned(one):
    one["verdict"] = STEPS[4 - STEPS.index(one["verdict"])] if one["verdict"] != "A=B" else "A>B"


def reasoned(one):
    """Verdict and reply changed alike: only the battles tell."""
    turned(one)
    said = json.loads(one["reply"]["text"]) | {"verdict": one["verdict"]}
    one["reply"]["text"] = json.dumps(said)


def decided(run):
    """A pair whose both orders are rewritten, replies too, so that another model wins."""
    found = verdicts(run)
    pairs = [k for k in range(0, 40, 2) if found[k]["state"] == found[k + 1]["state"] == "ok"]
    for k, step in ((pairs[0], "B>>A"), (pairs[0] + 1, "A>>B")):
        for place in (k, k + 2):
            if found[place]["state"] == "ok" and found[place]["match_id"] == found[k]["match_id"]:
                row("questions/factuality.jsonl", place, lambda one, step=step: _say(one, step))(run)


def _say(one, step):
    one["verdict"] = step
    one["reply"]["text"] = json.dumps(json.loads(one["reply"]["text"]) | {"verdict": step})


def stranger(run):
    """One more planted question, whole in itself, about a model that does not compete."""
    question = Question("judge-one", "factuality", "p00000", "us", "us", QuestionPurpose.IDENTICAL)
    judged = JudgedQuestion(
        question, None, QuestionState.EXPIRED, None, None, None, VerdictForm.SCHEMA, "0" * 64, 0
    )
    with (run / "questions/factuality.jsonl").open("ab") as file:
        file.write(json_line(judged.to_dict()))


def battle(change):
    """A battle changed on its line, and the copy in columns with it."""

    def forge(run):
        row("battles.jsonl", 2, change)(run)
        copy_battles(run / "battles.parquet", [open_battles(run / "battles.jsonl")])

    return forge


def columns_only(run):
    some = list(read_battles(run / "battles.parquet"))
    write_battles(run / "battles.parquet", [*some[1:], some[0]])


def replicate(run):
    columns = read_columns(run / "bootstrap_ratings.parquet")
    columns["rating"][5] += 0.5
    write_columns(run / "bootstrap_ratings.parquet", columns)


def trace(change):
    def forge(run):
        with np.load(run / "elo_per_perm.npz") as archive:
            arrays = {name: archive[name] for name in archive.files}
        change(arrays)
        with (run / "elo_per_perm.npz").open("wb") as file:
            np.savez(file, **arrays)

    return forge


def nudged(arrays):
    arrays["factuality__data"] = arrays["factuality__data"] + 0.01


def pickled(arrays):
    arrays["factuality__entrants"] = np.array([{"a": 1}], dtype=object)


def hidden_twin(run):
    path = run / "costs.json"
    path.write_text(path.read_text().replace('"actual": {', '"actual": {},\n  "actual": {', 1))


def first_rating(**fields):
    return edit(
        "dimension_ratings.json",
        lambda document: document["groups"]["factuality"]["ratings"][0].update(fields),
    )


def swapped(lines):
    return [lines[1], lines[0], *lines[2:]]


FORGERIES = {
    # what was asked
    "a configuration beside another": text("config.yaml", "n_perms: 4", "n_perms: 5"),
    "a rubric": text("rubrics/factuality.txt", "better", "nicer"),
    "a rubric's version": text("rubrics/factuality.txt", "v1", "v2"),
    "what a rubric is shown": text("rubrics/factuality.txt", "# uses: gold\n", ""),
    "a remark in a rubric": text("rubrics/calibration.txt", "better", "better  \n"),
    "an empty line in a rubric": text("rubrics/calibration.txt", "\n\n", "\n\n\n"),
    "a rubric and its hash": both(
        text("rubrics/factuality.txt", "v1", "v2"),
        edit("manifest.json", lambda document: document["rubrics"]["factuality"].update(version="v2")),
    ),
    "a prompt": row("answers.jsonl", 0, lambda one: one.update(prompt="Another?")),
    "a prompt in all its answers": rows(
        "answers.jsonl", lambda lines: [line.replace(b"Question 1?", b"Question one?") for line in lines]
    ),
    "a source": rows("answers.jsonl", lambda lines: [line.replace(b'"exam"', b'"exams"') for line in lines]),
    "the length of an answer": row("answers.jsonl", 0, lambda one: one.update(response="x" * 900)),
    "an answer left out": rows("answers.jsonl", lambda lines: lines[1:]),
    "an answer twice": rows("answers.jsonl", lambda lines: [lines[0], *lines]),
    "the order of answers": rows("answers.jsonl", lambda lines: [*lines[4:], *lines[:4]]),
    "answers to one prompt in two places": rows("answers.jsonl", lambda lines: [*lines[1:], lines[0]]),
    "an answer of a stranger": row("answers.jsonl", 0, lambda one: one.update(model="stranger")),
    "a match left out": rows("matches/matches.jsonl", lambda lines: lines[:-1]),
    "the order of matches": rows("matches/matches.jsonl", swapped),
    "the text of a match": row("matches/matches.jsonl", 0, lambda one: one.update(response_a="Better.")),
    "the winner of a judgment": row("verdicts/factuality.jsonl", 0, lambda one: one.update(winner="nobody")),
    "a judgment left out": rows("verdicts/factuality.jsonl", lambda lines: lines[:-1]),
    "a judgment too many": rows("verdicts/factuality.jsonl", lambda lines: [*lines, lines[-1]]),
    "a match too many": rows("matches/matches.jsonl", lambda lines: [*lines, lines[0]]),
    # what was said
    "a verdict": opinion(turned),
    "a verdict and its reply": opinion(reasoned),
    "both orders and their replies": decided,
    "the reasoning": opinion(lambda one: one.update(reasoning="Bribed.")),
    "a refusal made a tie": lambda run: row(
        "questions/factuality.jsonl",
        next(k for k, one in enumerate(verdicts(run)) if one["state"] == "refused"),
        lambda one: one.update(state="ok", verdict="A=B", both_bad=False, reasoning=""),
    )(run),
    "a verdict made unreadable": opinion(lambda one: one.update(state="unparseable", verdict=None, both_bad=None, reasoning=None)),
    "another parser": opinion(lambda one: one.update(parser=0)),
    "a later parser": opinion(lambda one: one.update(parser=99)),
    "another form": opinion(lambda one: one.update(form="text")),
    "the name of a question": opinion(lambda one: one.update(question_id="0" * 32)),
    "the match of a verdict": opinion(lambda one: one.update(match_id="0" * 32)),
    "the order of a verdict": opinion(lambda one: one.update(order=1 - one["order"])),
    "who was shown first": opinion(lambda one: one.update(first=one["second"], second=one["first"])),
    "a judge that nobody asked": opinion(lambda one: one.update(judge_model="stranger")),
    "a field of a verdict": opinion(lambda one: one.update(note="fine")),
    "a verdict left out": rows("questions/factuality.jsonl", lambda lines: lines[4:]),
    "a verdict twice": rows("questions/factuality.jsonl", lambda lines: [lines[0], *lines]),
    "a canary twice": rows("questions/factuality.jsonl", lambda lines: [*lines, lines[-1]]),
    "a canary left out": rows("questions/factuality.jsonl", lambda lines: lines[:-1]),
    "the order of verdicts": rows("questions/factuality.jsonl", swapped),
    "a canary among the verdicts": rows("questions/factuality.jsonl", lambda lines: [lines[-1], *lines[:-1]]),
    "a question about a stranger": stranger,
    "a verdict of another dimension": both(
        lambda run: shutil.copy(run / "questions/calibration.jsonl", run / "questions/factuality.jsonl")
    ),
    # battles
    "a winner": battle(lambda one: one.update(winner="model_b" if one["winner"] == "model_a" else "model_a", pref=0.5)),
    "a label": battle(lambda one: one.update(label="win" if one["label"] == "lean" else "lean", winner="model_a", pref=1.0)),
    "who judged": battle(lambda one: one.update(judge_model="a better judge")),
    "a weight": battle(lambda one: one.update(weight=3.0)),
    "the battles in columns": columns_only,
    "an anchor's winner": both(
        row("battles.jsonl", -1, lambda one: one.update(winner="tie" if one["winner"] != "tie" else "model_a")),
        lambda run: copy_battles(run / "battles.parquet", [open_battles(run / "battles.jsonl")]),
    ),
    "an anchor left out": both(
        rows("battles.jsonl", lambda lines: lines[:-1]),
        lambda run: copy_battles(run / "battles.parquet", [open_battles(run / "battles.jsonl")]),
    ),
    "an anchor without a dimension": both(
        row("battles.jsonl", -1, lambda one: one.pop("dimension")),
        lambda run: copy_battles(run / "battles.parquet", [open_battles(run / "battles.jsonl")]),
    ),
    # what it cost
    "the tokens of an attempt": attempt(input_tokens=1),
    "the price of an attempt": attempt(usd="0.0001"),
    "a price that is none": attempt(usd="cheap"),
    "a lost attempt made ok": attempts(lambda found: next(one for one in found if one["state"] == "lost").update(state="refused")),
    "an attempt left out": attempts(lambda found: found.pop()),
    "an attempt twice": attempts(lambda found: found.append(found[0])),
    "an attempt at nothing": attempt(question_id="0" * 32),
    "an attempt at no name": attempt(question_id="zz"),
    "an attempt of another judge": attempts(lambda found: found[3].update(judge_model="judge-one" if found[3]["judge_model"] == "judge-two" else "judge-two")),
    "an attempt in no known state": attempt(state="fine"),
    "an attempt in flight that was paid": attempt(state="in_flight"),
    "an attempt that ended, in flight": attempt(state="in_flight", usd=None),
    "an attempt without a state": attempt(state=None),
    "an ok attempt without a verdict": attempts(lambda found: next(one for one in found if one["state"] == "refused").update(state="ok")),
    "other columns of attempts": lambda run: write_columns(run / "attempts.parquet", {"attempt_id": ["a"]}),
    "the dollars": edit("costs.json", lambda document: document["actual"].update(usd="0.01")),
    "an unknown price made nothing": edit("costs.json", lambda document: document["actual"].update(usd="0")),
    "what was lost": edit("costs.json", lambda document: document["actual"]["paid_and_lost"].update(calls=0)),
    "the estimate": edit("costs.json", lambda document: document["estimate"].update(calls=1)),
    "that the cache did nothing": edit("costs.json", lambda document: document["prompt_cache"].update(did_nothing=False)),
    "a twin of a field": hidden_twin,
    # ratings
    "a rating": first_rating(rating=1900.0),
    "an interval": first_rating(ci_low=1.0),
    "a rank": first_rating(rank=2),
    "a choice": edit("dimension_ratings.json", lambda document: document["choices"]["overall"][1]["ratings"][0].update(rating=1.0)),
    "the stated weights": edit("dimension_ratings.json", lambda document: document["overall_weights"].update(factuality=1.0)),
    "a mean": edit("elo_results.json", lambda document: document["primary"]["factuality"]["ash"].update(mean=1900.0)),
    "an order noise": edit("elo_results.json", lambda document: document["primary"]["factuality"]["ash"].update(sem=9.0)),
    "decisive matches": edit("elo_results.json", lambda document: document["n_decisive_matches"].update(factuality=999)),
    "a K": edit("elo_results.json", lambda document: document["k_sensitivity"]["calibration"].pop("8.0")),
    "a trace": trace(nudged),
    "a trace with pickles": trace(pickled),
    "a trace left out": trace(lambda arrays: arrays.pop("calibration__data")),
    "no archive": lambda run: (run / "elo_per_perm.npz").write_bytes(b"PK"),
    "a replicate": replicate,
    "a pair's count": text("pairwise_winrates.csv", "factuality,<b>dill,ash,0,", "factuality,<b>dill,ash,9,"),
    "a share": edit("diagnostics.json", lambda document: document["judges"][0]["first_slot"].update(value=0.5)),
    "a finding": edit("diagnostics.json", lambda document: document["findings"].clear()),
    "incomplete matches": edit("diagnostics.json", lambda document: document["matches"]["factuality"].update(incomplete=0)),
    "a sentence in the report": text("report.html", "<h1>Garden</h1>", "<h1>Garden</h1><p>Certified.</p>"),
    "the dollars in the report": text("report.html", "Lost in flight: ", "Lost: "),
    # the manifest
    "the judges": manifest(judges=["judge-two", "judge-one"]),
    "the quorum": manifest(quorum=1),
    "the model of the judge": manifest(judge_model="a better judge"),
    "the models of the judges": manifest(judge_models=["x"]),
    "the entrants": manifest(entrants=["ash", "birch", "cedar"]),
    "the families": manifest(families={"ash": None, "birch": "acme", "cedar": None, "<b>dill": None}),
    "the family of a judge": manifest(judge_families={"judge-one": None, "judge-two": "acme"}),
    "the number of prompts": manifest(selected_prompt_count=99),
    "the prompts that nobody answered": manifest(unanswered=[]),
    "the prompt set": manifest(prompt_set="0" * 64),
    "the dropped pairs": manifest(dropped=0),
    "the missing responses": manifest(missing={}),
    "the limit of pairs": manifest(limit_pairs=1),
    "the sample of pairs": manifest(sample_pairs=1),
    "the configuration": edit("manifest.json", lambda document: document["config"].update(note="n")),
    "the permutations": manifest(n_perms=5),
    "the shuffle seed": manifest(shuffle_seed=5),
    "Elo's K": manifest(default_k=17.0),
    "Elo's start": manifest(initial_rating=1500.0),
    "Bradley–Terry's lean": parameter("bradley_terry", lean=1.0),
    "Bradley–Terry's inconsistent": parameter("bradley_terry", inconsistent=0.1),
    "the level of intervals": parameter("bradley_terry", level=0.5),
    "Bradley–Terry's seed": parameter("bradley_terry", seed=5),
    "the sweep": manifest(k_sweep=[8.0]),
    "the weights": manifest(overall={"factuality": 1.0}),
    "weights of nothing": manifest(overall={"charm": 1.0}),
    "the number of anchors": manifest(anchor_battles=7),
    "anchors of nobody": manifest(anchors=[]),
    "the replicates": manifest(n_bootstraps=5),
    "the arena": manifest(arena="Another"),
    "the model under test": manifest(model="ash"),
    "who was evaluated": manifest(evaluated=["ash"]),
    "what the plan expected": manifest(estimate={}),
    "that prompts were cached": manifest(prompt_cache_asked=False),
}  # fmt: skip


UNUSABLE = {
    "no such schema": manifest(manifest_schema=2),
    "no such kind": manifest(kind="tourney"),
    "no such field": manifest(approved_by="us"),
    "a dimension outside": edit("manifest.json", lambda document: document["rubrics"].update({"../x": {"version": "v1", "sha256": ""}})),
    "a level beyond all": parameter("bradley_terry", level=7),
    "no such parameter": parameter("bradley_terry", charm=1),
    "text for a number": manifest(default_k="much"),
    "a seed below zero": manifest(shuffle_seed=-1),
    "no judges": manifest(judges=[], judge_models=[]),
    "an impossible number of replicates": manifest(n_bootstraps=10**15),
    "an entrant twice": manifest(entrants=["ash", "ash", "birch", "cedar", "<b>dill"]),
    "a limit below nothing": manifest(limit_pairs=-1),
    "a sample below nothing": manifest(sample_pairs=-1),
    "anchors below nothing": manifest(anchor_battles=-3),
    "no object": lambda run: (run / "manifest.json").write_text("[]"),
    "no JSON": lambda run: (run / "manifest.json").write_text("{"),
    "deep": lambda run: (run / "manifest.json").write_text("[" * 10_000),
    "deep verdicts": lambda run: (run / "questions/factuality.jsonl").write_text("[" * 100_000),
    "verdicts that are lists": lambda run: (run / "questions/factuality.jsonl").write_text("[]\n"),
    "answers that are none": lambda run: (run / "answers.jsonl").write_text("{}\n"),
    "a rubric that is no text": lambda run: (run / "rubrics/factuality.txt").write_bytes(b"\xff"),
    "a configuration that is no text": lambda run: (run / "config.yaml").write_bytes(b"\xff"),
    "a configuration that is no YAML": lambda run: (run / "config.yaml").write_text("a: [1"),
    "battles that are none": lambda run: (run / "battles.parquet").write_bytes(b"PAR1PAR1"),
    "battles on lines that are none": rows("battles.jsonl", lambda lines: [*lines[:-1], b"[]\n"]),
    "attempts that are none": lambda run: (run / "attempts.parquet").write_bytes(b"PAR1PAR1"),
    "no diagnostics": lambda run: (run / "diagnostics.json").write_text("null"),
    "winrates that are no text": lambda run: (run / "pairwise_winrates.csv").write_bytes(b"\xff"),
}  # fmt: skip
