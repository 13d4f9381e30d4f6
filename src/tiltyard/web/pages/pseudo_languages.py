"""Languages that nobody speaks, made from the English catalogue to see pages as translations will leave them.

``en-XA`` is longer and accented; ``ar-XB`` is that from right to left, with the numbers, months and plurals of
Arabic. Both stand in brackets, so that a cut text and one that is not in the catalogue can be seen.
"""

from __future__ import annotations

import re

from babel.messages.catalog import Catalog

__all__ = ["PSEUDO_LANGUAGES", "translate_all"]

#: Each with the language whose numbers, dates and plurals it has.
PSEUDO_LANGUAGES = {"en-XA": "en", "ar-XB": "ar"}
#: What is filled in later, and no text.
_PLACES = re.compile(r"(%\(\w+\)[a-z]|%%|\{[^{}]*\})")
#: Vowels are doubled: two fifths longer, as German and Finnish are.
_LETTERS = str.maketrans(
    {
        "a": "áá", "e": "éé", "i": "íí", "o": "óó", "u": "úú", "y": "ýý",
        "A": "ÀÁ", "E": "ÈÉ", "I": "ÌÍ", "O": "ÒÓ", "U": "ÙÚ",
        "c": "ç", "n": "ñ", "s": "š", "z": "ž", "C": "Ç", "N": "Ñ", "S": "Š", "Z": "Ž",
    }
)  # fmt: skip


def translate_all(english: Catalog, language: str) -> Catalog:
    """The catalogue of a pseudo-language."""
    made = Catalog(locale=PSEUDO_LANGUAGES[language])
    for message in english:
        if isinstance(message.id, str):
            if message.id:
                made.add(message.id, _translate(message.id), context=message.context)
            continue
        one, many = map(_translate, message.id)
        forms = (one, many) if made.num_plurals == 2 else (many, one, *[many] * (made.num_plurals - 2))
        made.add(message.id, forms, context=message.context)
    return made


def _translate(text: str) -> str:
    parts = _PLACES.split(text)
    parts[::2] = [part.translate(_LETTERS) for part in parts[::2]]
    return f"⟦{''.join(parts)}⟧"
