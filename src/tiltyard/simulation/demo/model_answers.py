"""What the invented models answer: texts in their own voices, pictures, sounds and small apps."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from tiltyard.files.answer import Answer
from tiltyard.simulation.demo.demo_media import draw_picture, synthesise_tune
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
