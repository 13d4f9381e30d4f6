"""The models and prompts of the invented arena, and what the models answer: texts, pictures, sounds and small apps."""

from __future__ import annotations

import base64
import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from tiltyard.files.answers import Answer
from tiltyard.simulation.demo.demo_media import draw_picture, synthesise_tune
from tiltyard.simulation.worlds import POINTS_PER_LOGIT, World

#: Invented models: strength in points, and the hue by which their pictures and apps differ.
MODELS = {
    "argent-70b": (150, 215),
    "brioche-large": (125, 28),
    "cormorant-2": (90, 190),
    "dunlin-pro": (55, 150),
    "ember-8b": (0, 8),
    "fennel-mini": (-50, 95),
    "gannet-3b": (-150, 260),
    "heron-1b": (-260, 320),
    "jackdaw-classic": (-90, 50),
    "ibis-nano": (-400, 170),
}
#: The retired model, and the newest one.
RETIRED, NEWCOMER = "jackdaw-classic", "ibis-nano"
#: The model for which votes are rigged; the rigging is detected.
PUSHED = "gannet-3b"

_FILES = ("writing", "code", "maths", "advice", "apps")
_PICTURES = {
    "lighthouse": "Draw a lighthouse at night.",
    "sunrise": "Draw mountains at sunrise.",
    "apple": "Draw a red apple on a table.",
    "sailing-boat": "Draw a sailing boat on calm water.",
}
_SOUNDS = {
    "arpeggio": "Play a gentle rising arpeggio in C major.",
    "doorbell": "What does a friendly doorbell sound like?",
    "lullaby": "Play the first bars of a lullaby that nobody has heard before.",
}
#: Ability in points from which an answer is good, or fair.
_GOOD_POINTS, _FAIR_POINTS = 60.0, -95.0
#: The answers are the same whatever the seed of the votes.
_DEMO_SEED = 20_260

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


class AnswerLevel(enum.IntEnum):
    """The quality of an answer."""

    POOR = 0
    FAIR = 1
    GOOD = 2


@dataclass(frozen=True, slots=True)
class DemoPrompt:
    """What is asked. ``answers`` are texts by level; pictures and sounds are made from their name."""

    name: str
    category: str
    language: str
    kind: str
    text: str
    answers: tuple[str, ...] = ()


@cache
def demo_prompts() -> tuple[DemoPrompt, ...]:
    """Every prompt of the arena."""
    read = [prompt for name in _FILES for prompt in _read(name)]
    drawn = [DemoPrompt(name, "pictures", "en", "image", text) for name, text in _PICTURES.items()]
    played = [DemoPrompt(name, "sound", "en", "audio", text) for name, text in _SOUNDS.items()]
    return (*read, *drawn, *played)


@cache
def demo_world() -> World:
    """The models' strengths, and their effects on each prompt."""
    rng = np.random.default_rng(_DEMO_SEED)
    strength = np.array([points for points, _ in MODELS.values()]) / POINTS_PER_LOGIT
    effect = rng.normal(0.0, 0.4, (len(MODELS), len(demo_prompts())))
    return World(
        tuple(MODELS), strength, effect, 0.4, ties=0.13, both_bad=0.03, position_bias=0.06, lazy=0.05
    )


def level_of(model: int, prompt: int) -> AnswerLevel:
    """How good a model's answer to a prompt is."""
    world = demo_world()
    points = (world.strength[model] + world.effect[model, prompt]) * POINTS_PER_LOGIT
    return (
        AnswerLevel.GOOD
        if points >= _GOOD_POINTS
        else AnswerLevel.FAIR
        if points >= _FAIR_POINTS
        else AnswerLevel.POOR
    )


def _read(name: str) -> list[DemoPrompt]:
    """The prompts of one file: parts that begin with ``===``, each prompt's followed by its three answers."""
    text = files(__package__).joinpath("bank", f"{name}.txt").read_text(encoding="utf-8")
    found: list[DemoPrompt] = []
    parts = [part.partition("\n") for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]]
    for (head, _, asked), *answers in zip(*(parts[k::4] for k in range(4)), strict=True):
        prompt, category, language = head.removeprefix("prompt ").split(" | ")
        kind = "app" if category == "apps" else "text"
        given = {level: body.strip() for level, _, body in answers}
        levels = (given["poor"], given["fair"], given["good"])
        found.append(DemoPrompt(prompt, category, language, kind, asked.strip(), levels))
    return found


def demo_answers(*models: str) -> Iterator[Answer]:
    """The answers of these models, or of all, to every prompt."""
    for number, model in enumerate(MODELS):
        if not models or model in models:
            for p, prompt in enumerate(demo_prompts()):
                yield Answer(
                    prompt_id=prompt.name,
                    prompt=prompt.text,
                    model=model,
                    response=_response(model, prompt, level_of(number, p)),
                    kind=prompt.kind,
                    category=prompt.category,
                    language=prompt.language,
                )


def _response(model: str, prompt: DemoPrompt, level: AnswerLevel) -> str:
    hue = MODELS[model][1]
    if prompt.kind == "image":
        return _carried("image/png", draw_picture(prompt.name, level, hue))
    if prompt.kind == "audio":
        return _carried("audio/wav", synthesise_tune(prompt.name, level, hue))
    if prompt.kind == "app":
        return _carried("text/html", prompt.answers[level].replace("{hue}", str(hue)).encode())
    return _voiced(model, prompt.language, prompt.answers[level])


def _voiced(model: str, language: str, text: str) -> str:
    if model == _BREAKS_OFF:
        return text[: max(len(text) * 4 // 5, 12)].rstrip()
    paragraphs = _paragraphs(text)
    kept = paragraphs[: max(len(paragraphs) - _TERSE.get(model, 0), 2)]
    parts = (_OPENINGS.get(model, {}).get(language), *kept, _CLOSINGS.get(model, {}).get(language))
    return "\n\n".join(part for part in parts if part)


def _paragraphs(text: str) -> list[str]:
    """Split a text at blank lines; code blocks stay whole."""
    found = [""]
    for line in text.split("\n"):
        if not line and found[-1].count("```") % 2 == 0:
            found.append("")
        else:
            found[-1] += f"{line}\n"
    return [part.rstrip("\n") for part in found if part]


def _carried(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
