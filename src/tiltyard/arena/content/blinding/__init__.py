"""Pictures and sounds as voters get them: without what their files say of themselves.

Files of images and audio carry words beside what is seen and heard: the program that made them, its maker,
the prompt. A voter who reads them is not blind. Here every file is walked part by part, without decoding:
parts that are needed to show it stay, all others go. The picture is the same to the pixel, the sound to the
sample. What is hidden in pixels and samples themselves is part of the response, and stays.
"""

from __future__ import annotations

from collections.abc import Callable

from tiltyard.arena.content.blinding.audio import (
    strip_flac_metadata,
    strip_mp3_metadata,
    strip_ogg_metadata,
    strip_wav_metadata,
)
from tiltyard.arena.content.blinding.images import (
    strip_gif_metadata,
    strip_jpeg_metadata,
    strip_png_metadata,
    strip_webp_metadata,
)

__all__ = ["strip_metadata"]

_STRIPPERS: dict[str, Callable[[bytes], bytes]] = {
    "image/png": strip_png_metadata,
    "image/jpeg": strip_jpeg_metadata,
    "image/gif": strip_gif_metadata,
    "image/webp": strip_webp_metadata,
    "audio/wav": strip_wav_metadata,
    "audio/mpeg": strip_mp3_metadata,
    "audio/ogg": strip_ogg_metadata,
    "audio/flac": strip_flac_metadata,
}


def strip_metadata(media: str, data: bytes) -> bytes:
    """The same picture or sound without what its file says of itself; texts and apps stay as they are.

    A file that cannot be walked is an `InputError`, which says what is wrong with it and where.
    """
    walk = _STRIPPERS.get(media)
    return data if walk is None else walk(data)
