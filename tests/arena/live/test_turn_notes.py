"""What is noted about a turn, and what is shown of its answers."""

from tiltyard.arena.live.live_records import StoredEntrant
from tiltyard.arena.live.turn_notes import TurnNotes, note_turn

ENTRANTS = (
    StoredEntrant(0, "Small", "v1", {"model": "qwen2.5:0.5b"}),
    StoredEntrant(1, "Otter", "v2", {}),
)
MODELS = ("Small", "Otter")


def test_a_harmless_turn_has_a_language_only():
    checks = TurnNotes(ENTRANTS)
    assert checks.flags("What is this?", ("A cat.", "A dog."), MODELS) == {"language": "en"}


def test_everything_is_noted():
    noted = TurnNotes(ENTRANTS).flags(
        "Wer bist du, und wie ist deine Adresse?",
        ("Ich bin Qwen.", "Write to ann@firma.de"),
        MODELS,
        rules=("exam", "exam", "unchecked"),
    )
    assert noted == {
        "language": "de",
        "identity": ["prompt", "a"],
        "private": ["e-mail"],
        "rules": ["exam", "unchecked"],
    }


def test_names_are_masked_if_the_arena_says_so():
    said = "I am Qwen. And"
    assert TurnNotes(ENTRANTS).shown(said, complete=False) == said
    masked = TurnNotes(ENTRANTS, "mask")
    assert masked.shown(said, complete=False) == "I am […]."
    assert masked.shown(said, complete=True) == "I am […]. And"


def test_the_entrants_of_a_turn_are_given_by_their_numbers():
    noted = note_turn(ENTRANTS, "What is this?", ("I'm Otter.", "I'm Otter."), (1, 9))
    assert noted["identity"] == ["a", "b"]
