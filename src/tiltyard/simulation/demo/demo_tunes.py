"""Short sounds, made of sines: better ones are in tune and fade as strings do."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tiltyard.simulation.demo.demo_roster import AnswerLevel

_SAMPLE_RATE_HERTZ = 11_025
#: Notes as halftones above middle C, and how long each lasts in seconds.
_TUNES: dict[str, Sequence[tuple[int, float]]] = {
    "arpeggio": ((0, 0.3), (4, 0.3), (7, 0.3), (12, 0.9)),
    "doorbell": ((16, 0.5), (12, 1.1)),
    "lullaby": ((7, 0.4), (4, 0.2), (7, 0.6), (9, 0.4), (7, 0.2), (4, 0.8)),
}
#: Strengths of the overtones by level: a bell, a plain tone, something harsh.
_OVERTONES = {
    AnswerLevel.GOOD: (1.0, 0.4, 0.18, 0.08),
    AnswerLevel.FAIR: (1.0,),
    AnswerLevel.POOR: (1.0, 0.0, 0.6, 0.0, 0.5),
}


def synthesise_tune(name: str, level: AnswerLevel, colour: int) -> bytes:
    """A tune as WAV. ``colour`` makes one model's differ from another's: how fast, and how high."""
    rng = np.random.default_rng(colour)
    pace = 1.0 + 0.15 * rng.uniform(-1.0, 1.0)
    shift = float(rng.integers(-2, 3))
    notes = [_note(note + shift + _off(level, rng), seconds * pace, level) for note, seconds in _TUNES[name]]
    sound = np.concatenate(notes)
    return _written(np.rint(sound / np.abs(sound).max() * 14_000).astype("<i2"))


def _off(level: AnswerLevel, rng: np.random.Generator) -> float:
    """How far out of tune a note is, in halftones."""
    return float(rng.normal(0.0, 0.9)) if level is AnswerLevel.POOR else 0.0


def _note(halftones: float, seconds: float, level: AnswerLevel) -> npt.NDArray[np.float64]:
    time = np.arange(int(seconds * _SAMPLE_RATE_HERTZ)) / _SAMPLE_RATE_HERTZ
    pitch = 261.63 * 2.0 ** (halftones / 12.0)
    wave_ = sum(
        part * np.sin(2.0 * np.pi * pitch * (k + 1) * time) for k, part in enumerate(_OVERTONES[level])
    )
    if level is AnswerLevel.GOOD:
        return np.asarray(wave_ * np.minimum(time / 0.01, 1.0) * np.exp(-3.0 * time))
    ends = np.minimum(time, seconds - time) / 0.02
    return np.asarray(wave_ * (np.clip(ends, 0.0, 1.0) if level is AnswerLevel.FAIR else 0.6))


def _written(samples: npt.NDArray[np.int16]) -> bytes:
    kept = io.BytesIO()
    with wave.open(kept, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_SAMPLE_RATE_HERTZ)
        file.writeframes(samples.tobytes())
    return kept.getvalue()
