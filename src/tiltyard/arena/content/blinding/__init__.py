"""Pictures and sounds as voters get them: without what their files say of themselves.

Files of images and audio carry words beside what is seen and heard: the program that made them, its maker,
the prompt. A voter who reads them is not blind. Here every file is walked part by part, without decoding:
parts that are needed to show it stay, all others go. The picture is the same to the pixel, the sound to the
sample. What is hidden in pixels and samples themselves is part of the response, and stays.
"""

from __future__ import annotations

from collections.abc import Callable

from tiltyard.arena.content.blinding.images import blinded_gif, blinded_jpeg, blinded_png, blinded_webp
from tiltyard.arena.content.blinding.sounds import blinded_flac, blinded_mp3, blinded_ogg, blinded_wav

__all__ = ["blinded"]

_WALKS: dict[str, Callable[[bytes], bytes]] = {
    "image/png": blinded_png,
    "image/jpeg": blinded_jpeg,
    "image/gif": blinded_gif,
    "image/webp": blinded_webp,
    "audio/wav": blinded_wav,
    "audio/mpeg": blinded_mp3,
    "audio/ogg": blinded_ogg,
    "audio/flac": blinded_flac,
}


def blinded(media: str, data: bytes) -> bytes:
    """The same picture or sound without what its file says of itself; texts and apps stay as they are.

    A file that cannot be walked is an `InputError`, which says what is wrong with it and where.
    """
    walk = _WALKS.get(media)
    return data if walk is None else walk(data)
