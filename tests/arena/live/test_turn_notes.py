"""What is noted about a turn."""

from tiltyard.arena.live.live_records import StoredEntrant
from tiltyard.arena.live.turn_notes import note_turn

ENTRANTS = (
    StoredEntrant(0, "Small", "v1", {"model": "qwen2.5:0.5b"}),
    StoredEntrant(1, "Otter", "v2", {}),
)


def test_a_harmless_turn_has_a_language_only():
    assert note_turn(ENTRANTS, "What is this?", ("A cat.", "A dog."), (0, 1)) == {"language": "en"}


def test_everything_is_noted():
    answers = ("Ich bin Qwen.", "Write to ann@firma.de")
    noted = note_turn(ENTRANTS, "Wer bist du, und wie ist deine Adresse?", answers, (0, 1))
    assert noted == {"language": "de", "identity": ["prompt", "a"], "private": ["e-mail"]}


def test_the_entrants_of_a_turn_are_given_by_their_numbers():
    noted = note_turn(ENTRANTS, "What is this?", ("I'm Otter.", "I'm Otter."), (1, 9))
    assert noted["identity"] == ["a", "b"]
