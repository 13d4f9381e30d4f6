"""What the invented models answer: texts in their own voices, pictures, sounds and small apps.

Better pictures have light, shade and everything that was asked for; better sounds are in tune and fade as strings do."""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tiltyard.files.answer import Answer, AnswerUsage
from tiltyard.simulation.demo.demo_roster import MODELS, AnswerLevel, DemoPrompt, demo_prompts, level_of

#: How models begin and end, by language. A model without a line here says nothing but the answer.
_OPENINGS = {
    "cormorant-2": {
        "en": "Here is my answer.",
        "fr": "Voici ma réponse.",
        "de": "Hier ist meine Antwort.",
        "ar": "إليك جوابي.",
        "he": "הנה התשובה שלי.",
        "ja": "回答は次のとおりです。",
    },
    "ember-8b": {
        "en": "Great question! 😊",
        "fr": "Excellente question ! 😊",
        "de": "Tolle Frage! 😊",
        "ar": "سؤال رائع! 😊",
        "he": "שאלה מצוינת! 😊",
        "ja": "いい質問ですね！😊",
    },
    "gannet-3b": {
        "en": "I am only a language model, but I will try.",
        "fr": "Je ne suis qu'un modèle de langage, mais j'essaie.",
        "de": "Ich bin nur ein Sprachmodell, aber ich versuche es.",
        "ar": "أنا مجرد نموذج لغوي، لكنني سأحاول.",
        "he": "אני רק מודל שפה, אבל אנסה.",
        "ja": "私は言語モデルにすぎませんが、やってみます。",
    },
    "ibis-nano": {
        "en": "In brief:",
        "fr": "En bref :",
        "de": "Kurz gesagt:",
        "ar": "باختصار:",
        "he": "בקצרה:",
        "ja": "要点：",
    },
    "jackdaw-classic": {
        "en": "Dear user, thank you for your request.",
        "fr": "Cher utilisateur, merci de votre demande.",
        "de": "Lieber Nutzer, danke für die Anfrage.",
        "ar": "عزيزي المستخدم، شكرًا لطلبك.",
        "he": "משתמש יקר, תודה על פנייתך.",
        "ja": "ご依頼ありがとうございます。",
    },
}
_CLOSINGS = {
    "brioche-large": {
        "en": "Shall I make it shorter, or go deeper?",
        "fr": "Voulez-vous une version plus courte ?",
        "de": "Soll ich es kürzer fassen?",
        "ar": "هل تريد نسخة أقصر؟",
        "he": "לקצר, או להרחיב?",
        "ja": "もっと短くしましょうか。",
    },
    "dunlin-pro": {
        "en": "Done.",
        "fr": "Voilà.",
        "de": "Fertig.",
        "ar": "انتهى.",
        "he": "זהו.",
        "ja": "以上です。",
    },
    "ember-8b": {
        "en": "Hope this helps! 😃",
        "fr": "J'espère que cela vous aide ! 😃",
        "de": "Ich hoffe, das hilft! 😃",
        "ar": "أتمنى أن يفيدك هذا! 😃",
        "he": "מקווה שעזרתי! 😃",
        "ja": "お役に立てれば幸いです！😃",
    },
    "fennel-mini": {
        "en": "(Please check this.)",
        "fr": "(À vérifier.)",
        "de": "(Bitte prüfen.)",
        "ar": "(يُرجى التحقق.)",
        "he": "(כדאי לבדוק.)",
        "ja": "（ご確認ください。）",
    },
}
#: How many paragraphs models leave out at the end, where enough remain.
_TERSE = {"cormorant-2": 1, "dunlin-pro": 2}
#: This model stops before it is done.
_BREAKS_OFF = "heron-1b"

#: Red, green and blue, each from 0 to 255.
Colour = tuple[float, float, float]
Part = tuple[slice, slice]
_MAGIC = b"\x89PNG\r\n\x1a\n"
_SIZE_PIXELS = (400, 300)
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


def demo_answers(*models: str) -> Iterator[Answer]:
    """The answers of these models, or of all, to every prompt."""
    for number, model in enumerate(MODELS):
        if not models or model in models:
            for p, prompt in enumerate(demo_prompts()):
                response = _response(model, prompt, level_of(number, p))
                yield Answer(
                    prompt_id=prompt.name,
                    prompt=prompt.text,
                    model=model,
                    response=response,
                    usage=_usage(model, response if prompt.kind == "text" else ""),
                    kind=prompt.kind,
                    category=prompt.category,
                    language=prompt.language,
                )


def _usage(model: str, response: str) -> AnswerUsage:
    """What it took: stronger models are slower and dearer."""
    tokens, size = 40 + len(response) // 4, 2.0 ** (MODELS[model][0] / 100.0)
    return AnswerUsage(
        output_tokens=tokens,
        cost_usd=round(4e-6 * size * tokens, 7),
        latency_seconds=0.3 + 0.01 * size * tokens,
    )


def _response(model: str, prompt: DemoPrompt, level: AnswerLevel) -> str:
    hue = MODELS[model][1]
    if prompt.kind == "image":
        return _carried("image/png", draw_picture(prompt.name, level, hue))
    if prompt.kind == "audio":
        return _carried("audio/wav", synthesise_tune(prompt.name, level, hue))
    if prompt.kind == "app":
        return _carried("text/html", prompt.answers[level].replace("{hue}", str(hue)).encode())
    language = prompt.language
    text = prompt.answers[level]
    if model == _BREAKS_OFF:
        return text[: max(len(text) * 4 // 5, 12)].rstrip()
    # Split a text at blank lines; code blocks stay whole.
    found = [""]
    for line in text.split("\n"):
        if not line and found[-1].count("```") % 2 == 0:
            found.append("")
        else:
            found[-1] += f"{line}\n"
    paragraphs = [part.rstrip("\n") for part in found if part]
    kept = paragraphs[: max(len(paragraphs) - _TERSE.get(model, 0), 2)]
    parts = (_OPENINGS.get(model, {}).get(language), *kept, _CLOSINGS.get(model, {}).get(language))
    return "\n\n".join(part for part in parts if part)


def _carried(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


class Canvas:
    """Pixels of one picture. Places are counted from the upper left corner."""

    def __init__(self, width: int, height: int) -> None:
        self._pixels = np.full((height, width, 3), 255.0)
        self._y, self._x = np.mgrid[0:height, 0:width] + 0.5

    def fade(self, above: Colour, below: Colour) -> None:
        """Fill everything, from one colour down to another."""
        share = np.linspace(0.0, 1.0, self._pixels.shape[0])[:, None, None]
        self._pixels[:] = (1.0 - share) * np.array(above) + share * np.array(below)

    def circle(self, x: float, y: float, radius: float, colour: Colour, strength: float = 1.0) -> None:
        self.ellipse(x, y, radius, radius, colour, strength)

    def ellipse(
        self, x: float, y: float, wide: float, high: float, colour: Colour, strength: float = 1.0
    ) -> None:
        if wide > 0.0 and high > 0.0:
            part = self._around((x - wide, x + wide), (y - high, y + high))
            away = np.hypot((self._x[part] - x) / wide, (self._y[part] - y) / high) - 1.0
            self._paint(part, away * min(wide, high), colour, strength)

    def polygon(self, corners: Sequence[tuple[float, float]], colour: Colour, strength: float = 1.0) -> None:
        """Any polygon whose sides do not cross, by the distance to its nearest side."""
        part = self._around([x for x, _ in corners], [y for _, y in corners])
        px, py = self._x[part], self._y[part]
        away = np.full(px.shape, np.inf)
        inside = np.zeros(px.shape, dtype=bool)
        for (x1, y1), (x2, y2) in zip(corners, [*corners[1:], corners[0]], strict=True):
            dx, dy = x2 - x1, y2 - y1
            along = np.clip(((px - x1) * dx + (py - y1) * dy) / max(dx * dx + dy * dy, 1e-9), 0.0, 1.0)
            away = np.minimum(away, np.hypot(px - x1 - along * dx, py - y1 - along * dy))
            if dy:
                inside ^= ((y1 > py) != (y2 > py)) & (px < x1 + (py - y1) * dx / dy)
        self._paint(part, np.where(inside, -away, away), colour, strength)

    def png(self) -> bytes:
        """The picture, with colours rounded a little so that it stays small."""
        height, width, _ = self._pixels.shape
        rounded = np.clip(np.rint(self._pixels / 4.0) * 4.0, 0, 255).astype(np.uint8)
        # Each row as its difference to the one above it.
        rows = np.diff(rounded.astype(np.int16), axis=0, prepend=0).astype(np.uint8).reshape(height, -1)
        data = np.concatenate([np.full((height, 1), 2, dtype=np.uint8), rows], axis=1).tobytes()
        header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        parts = ((b"IHDR", header), (b"IDAT", zlib.compress(data, 9)), (b"IEND", b""))
        return _MAGIC + b"".join(_chunk(name, body) for name, body in parts)

    def _around(self, x: Sequence[float], y: Sequence[float]) -> Part:
        """The pixels among which a shape lies."""
        rows, columns = (slice(max(int(min(v)) - 1, 0), max(int(max(v)) + 2, 0)) for v in (y, x))
        return rows, columns

    def _paint(self, part: Part, away: npt.NDArray[np.float64], colour: Colour, strength: float) -> None:
        cover = (np.clip(0.5 - away, 0.0, 1.0) * strength)[..., None]
        self._pixels[part] += cover * (np.array(colour) - self._pixels[part])


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def draw_picture(name: str, level: AnswerLevel, hue: int) -> bytes:
    """A picture as PNG. ``hue`` makes one model's differ from another's."""
    canvas = Canvas(*_SIZE_PIXELS)
    _SCENES[name](canvas, level, hue, np.random.default_rng(hue))
    return canvas.png()


def _tinted(hue: int, colour: Colour, share: float = 0.12) -> Colour:
    """A colour with a little of a model's own in it."""
    angle = np.deg2rad(hue + np.array([0.0, -120.0, 120.0]))
    own = 127.5 + 127.5 * np.cos(angle)
    red, green, blue = ((1.0 - share) * np.array(colour) + share * own).tolist()
    return red, green, blue


def _lighthouse(canvas: Canvas, level: AnswerLevel, hue: int, rng: np.random.Generator) -> None:
    night = _tinted(hue, (18, 26, 58))
    canvas.fade(night, _tinted(hue, (74, 84, 130)) if level else night)
    if level is AnswerLevel.GOOD:
        for x, y in rng.uniform((0, 0), (400, 150), (40, 2)):
            canvas.circle(x, y, rng.uniform(0.6, 1.5), (255, 250, 220))
        canvas.polygon([(262, 92), (0, 30), (0, 132)], (255, 240, 180), 0.35)
    if level:
        canvas.polygon([(0, 230), (400, 230), (400, 300), (0, 300)], _tinted(hue, (20, 60, 90)))
        canvas.polygon([(200, 262), (225, 218), (330, 214), (370, 262)], (60, 58, 62))
    lean = 0.0 if level else float(rng.uniform(-30, 30))
    canvas.polygon([(246 + lean, 104), (278 + lean, 104), (292, 232), (232, 232)], (238, 236, 230))
    if level:
        for y in (128, 168, 208):
            grow = (y - 104) * 0.11
            canvas.polygon(
                [(246 - grow, y), (278 + grow, y), (280 + grow, y + 18), (244 - grow, y + 18)], (190, 52, 50)
            )
    if level is AnswerLevel.GOOD:
        canvas.polygon([(248, 80), (276, 80), (276, 104), (248, 104)], (255, 225, 130))
        canvas.polygon([(242, 80), (282, 80), (262, 62)], (120, 34, 34))
        for y in (250, 270, 288):
            canvas.polygon([(20, y), (150, y - 2), (150, y + 1), (20, y + 2)], (150, 185, 205), 0.5)


def _sunrise(canvas: Canvas, level: AnswerLevel, hue: int, rng: np.random.Generator) -> None:
    if level is AnswerLevel.GOOD:
        canvas.fade(_tinted(hue, (64, 84, 150)), (255, 196, 140))
        for radius, strength in ((95, 0.12), (70, 0.18), (48, 0.3)):
            canvas.circle(250, 170, radius, (255, 240, 200), strength)
    else:
        canvas.fade(_tinted(hue, (150, 190, 230)), _tinted(hue, (200, 215, 235)))
    if level:
        canvas.circle(250, 170, 32, (255, 236, 170))
    ridges = 4 if level is AnswerLevel.GOOD else 2 if level else 1
    for k in range(ridges):
        near = (k + 1) / ridges
        top = 170 + 95 * near - (60 if ridges == 1 else 30)
        x = np.linspace(-20, 420, 12 + 4 * level)
        y = top + rng.uniform(-32, 22, len(x)) * (1.2 - 0.5 * near)
        shade = (150 - 110 * near, 140 - 90 * near, 170 - 100 * near) if level else (110, 110, 110)
        canvas.polygon(
            [*zip(x.tolist(), y.tolist(), strict=True), (420, 300), (-20, 300)], _tinted(hue, shade)
        )


def _apple(canvas: Canvas, level: AnswerLevel, hue: int, rng: np.random.Generator) -> None:
    canvas.fade(_tinted(hue, (236, 230, 220)), _tinted(hue, (220, 208, 194)))
    if level:
        canvas.polygon([(0, 215), (400, 215), (400, 300), (0, 300)], _tinted(hue, (150, 106, 70)))
    if level is AnswerLevel.GOOD:
        canvas.ellipse(212, 244, 92, 14, (70, 44, 28), 0.45)
    red = (190, 34, 40) if level else _tinted(hue, (170, 120, 60), 0.3)
    x = 200 + float(rng.uniform(-12, 12))
    if level is AnswerLevel.POOR:
        canvas.ellipse(x, 170, 84, 52, red)
        return
    canvas.circle(x - 26, 172, 66, red)
    canvas.circle(x + 26, 172, 66, red)
    if level is AnswerLevel.GOOD:
        for k in range(14):
            canvas.ellipse(x - 34, 150 - k, 30 - 2 * k, 22 - 1.4 * k, (255, 120, 105), 0.09)
        canvas.ellipse(x, 112, 26, 8, (120, 16, 24), 0.7)
        canvas.polygon([(x + 6, 104), (x + 34, 78), (x + 66, 84), (x + 36, 108)], (70, 128, 58))
    canvas.polygon([(x - 4, 116), (x + 3, 116), (x + 10, 78), (x + 4, 76)], (84, 56, 36))


def _boat(canvas: Canvas, level: AnswerLevel, hue: int, rng: np.random.Generator) -> None:
    canvas.fade(_tinted(hue, (150, 200, 235)), _tinted(hue, (226, 240, 246)) if level else (150, 200, 235))
    if level is AnswerLevel.GOOD:
        canvas.circle(318, 62, 26, (255, 232, 150))
        for x, y in ((70, 60), (96, 52), (122, 62)):
            canvas.ellipse(x, y, 34, 14, (255, 255, 255), 0.8)
    water = _tinted(hue, (40, 108, 150))
    canvas.polygon([(0, 205), (400, 205), (400, 300), (0, 300)], water)
    if level is AnswerLevel.POOR:
        canvas.polygon([(150, 200), (260, 200), (260, 214), (150, 214)], (110, 70, 40))
        return
    canvas.polygon([(128, 196), (286, 196), (258, 228), (156, 228)], (122, 66, 38))
    canvas.polygon([(202, 60), (207, 60), (207, 196), (202, 196)], (90, 60, 40))
    canvas.polygon([(212, 66), (212, 186), (280, 186)], (250, 248, 240))
    if level is AnswerLevel.GOOD:
        canvas.polygon([(198, 84), (198, 186), (142, 186)], _tinted(hue, (214, 92, 70), 0.35))
        canvas.polygon([(128, 196), (286, 196), (282, 202), (132, 202)], (244, 236, 220))
        for wave in range(214, 300, 14):
            left, width = rng.uniform(0, 300), rng.uniform(50, 110)
            canvas.polygon(
                [(left, wave), (left + width, wave - 1), (left + width, wave + 1), (left, wave + 2)],
                (190, 220, 235),
                0.5,
            )


_SCENES: dict[str, Callable[[Canvas, AnswerLevel, int, np.random.Generator], None]] = {
    "lighthouse": _lighthouse,
    "sunrise": _sunrise,
    "apple": _apple,
    "sailing-boat": _boat,
}


def synthesise_tune(name: str, level: AnswerLevel, colour: int) -> bytes:
    """A tune as WAV. ``colour`` makes one model's differ from another's: how fast, and how high."""
    rng = np.random.default_rng(colour)
    pace = 1.0 + 0.15 * rng.uniform(-1.0, 1.0)
    shift = float(rng.integers(-2, 3))
    # How far out of tune a note is, in halftones.
    notes = [
        _note(
            note + shift + (float(rng.normal(0.0, 0.9)) if level is AnswerLevel.POOR else 0.0),
            seconds * pace,
            level,
        )
        for note, seconds in _TUNES[name]
    ]
    sound = np.concatenate(notes)
    return _written(np.rint(sound / np.abs(sound).max() * 14_000).astype("<i2"))


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
