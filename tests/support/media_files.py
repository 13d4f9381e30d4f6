"""Small pictures and sounds in every format that an arena takes, with a name wherever a file can say one."""

import base64
import io
import struct
import wave
import zlib

from tiltyard.arena.content.blinding.audio import _page_checksum as ogg_checksum

MARK = b"argent-70b"
#: The same as files in UTF-16 have it.
WIDE = MARK.decode().encode("utf-16-be")
_JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxO"
    "UlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09P"
    "T09PT09PT0//wAARCAAQABgDASIAAhEBAxEB/8QAFwAAAwEAAAAAAAAAAAAAAAAAAAEEAv/EABwQAAICAgMAAAAAAAAAAAAAAAAB"
    "AgMEERIhQf/EABUBAQEAAAAAAAAAAAAAAAAAAAUD/8QAHREAAgICAwEAAAAAAAAAAAAAAQIAAwQREiIxQf/aAAwDAQACEQMRAD8A"
    "iohjSpi7XHl3vctekDY2zDZXFxyDuJMrVO7Fy3I70fnvkTYCbAdrp6wyy7tP/9k="
)
_WEBP = base64.b64decode(
    "VlA4IGgAAAAQBACdASoYABAAPrVKnkmnJCKhMAgA4BaJbACdMoR3IsAA3FNycJ5HQAD+g2ovL1Abt6bnaAgnup5Rcy8mwdq7zn9c"
    "H/4nXX/j/dlvNJ2N7g6hW7PDxK1gs2zW4cF6PFi1kIY3yoAAAA=="
)
_WEBP_ALPHA = base64.b64decode(
    "QUxQSBwAAAABDzCAERFCTdtIzBX+fG+76QuEiP5PAObUf1gDVlA4IG4AAACQAwCdASoYABAAPrVInkonJCKhsAgA4BaJbACdL14U"
    "A90MEcbAAP7r3ihpjkUa2ECXgMb/tZBbmM5zCfox338nH4zNww/t3bEUcfItylZHvKcU7HdgAA7Ygf7t/+P+f+f4bCQZqX8f8ffX"
    "si0AAA=="
)
_OPUS = [
    base64.b64decode(packet)
    for packet in (
        "SIOcLVZJgowB0NdDSJnwZn60jCTJLwkBTuhiuvqZuIrHNyX3A06tDegCg7YoiEML5yNlB4Bf3Q==",
        "SK+W3sRplSSO63+2GdQ55g0HjuN4NmddSwZ26Djljz7qB4t9CQhtwkV3uiA=",
        "SKPThuOYsilYE8D2FpsEgwuchX+A0VBlPRDQ9PU4ad8TeXGD+GXxoTP7B+4o1rC8pJYCgA==",
        "SKPTrBBZ0JBhz0mcPtEf2yI3YWhDpP09J2y3+rDMN/cFrsH4r0PJehmPncLTdH83wA==",
        "SKPS5xDMvrH25Ev5ktdpfeJLKNK+kCBKJaUD5wuT/ig3Ag7jLyFkodDESzZL",
        "SLn4LMaDG8zCznxazHCcFSDtQWA=",
    )
]


def icc_profile() -> bytes:
    """Colours that a screen must be told of, and the maker's name in all four corners."""

    def xyz(*values):
        return b"XYZ \0\0\0\0" + b"".join(struct.pack(">i", round(65536 * value)) for value in values)

    gamma = b"curv\0\0\0\0" + struct.pack(">IH", 1, 0x0180) + b"\0\0"
    words = b"mluc\0\0\0\0" + struct.pack(">II2s2sII", 1, 12, b"en", b"US", len(WIDE), 28) + WIDE
    tags = {
        b"desc": words,
        b"cprt": b"text\0\0\0\0" + MARK + b"\0",
        b"dmnd": b"desc\0\0\0\0" + struct.pack(">I", len(MARK)) + MARK,
        b"wtpt": xyz(0.9642, 1.0, 0.8249),
        b"rXYZ": xyz(0.6097, 0.3111, 0.0195),
        b"gXYZ": xyz(0.2053, 0.6257, 0.0609),
        b"bXYZ": xyz(0.1492, 0.0632, 0.7446),
        b"rTRC": gamma,
        b"gTRC": gamma,
        b"bTRC": gamma,
    }
    table, values, at = b"", b"", 132 + 12 * len(tags)
    for name, value in tags.items():
        padded = value + bytes(-len(value) % 4)
        table += name + struct.pack(">II", at + len(values), len(value))
        values += padded
    size = at + len(values)
    head = struct.pack(">I4sI", size, MARK[:4], 0x02400000) + b"mntrRGB XYZ " + bytes(12) + b"acsp"
    head += b"APPL" + bytes(4) + MARK[:4] + MARK[4:8] + bytes(12) + struct.pack(">iii", 63190, 65536, 54061)
    head += MARK[:4] + MARK + bytes(34)
    return head + struct.pack(">I", len(tags)) + table + values


def exif(orientation: int = 6) -> bytes:
    """Big-endian TIFF: a program, an orientation, a maker."""
    entries = [
        (0x010F, 2, len(MARK) + 1, 50),
        (0x0112, 3, 1, orientation << 16),
        (0x0131, 2, len(MARK) + 1, 50),
    ]
    body = b"".join(struct.pack(">HHII", *entry) for entry in entries)
    return b"MM\0*\0\0\0\x08" + struct.pack(">H", len(entries)) + body + bytes(4) + MARK + b"\0"


PROFILE = icc_profile()
XMP = b"<x:xmpmeta><rdf:li>" + MARK + b"</rdf:li></x:xmpmeta>"


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(*before: bytes, after: bytes = b"") -> bytes:
    """A gradient of 24 × 16, with these chunks before its pixels and those after."""
    rows = b"".join(b"\0" + b"".join(bytes((9 * x, 15 * y, 90)) for x in range(24)) for y in range(16))
    head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 24, 16, 8, 2, 0, 0, 0))
    pixels = zlib.compress(rows)
    parts = (head, *before, png_chunk(b"IDAT", pixels[:99]), png_chunk(b"IDAT", pixels[99:]), after)
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + png_chunk(b"IEND", b"")


def marked_png() -> bytes:
    before = (
        png_chunk(b"gAMA", struct.pack(">I", 45455)),
        png_chunk(b"sRGB", b"\0" + MARK),
        png_chunk(b"iCCP", MARK + b"\0\0" + zlib.compress(PROFILE)),
        png_chunk(b"tEXt", b"Software\0" + MARK),
        png_chunk(b"zTXt", b"parameters\0\0" + MARK),
        png_chunk(b"caBX", b"jumb c2pa " + MARK),
        png_chunk(b"pHYs", bytes(9)),
        png_chunk(b"vpAg", MARK),
        png_chunk(b"eXIf", exif()),
    )
    after = (
        png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP)
        + png_chunk(b"tIME", bytes(7))
        + png_chunk(b"eXIf", MARK)
    )
    return png(*before, after=after) + MARK


def segment(marker: int, data: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(data) + 2) + data


def marked_jpeg() -> bytes:
    icc = [PROFILE[:200], PROFILE[200:]]
    added = [
        segment(0xE0, b"JFXX\0\x10" + MARK),
        segment(0xE1, b"Exif\0\0" + exif()),
        segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + XMP),
        *(segment(0xE2, b"ICC_PROFILE\0" + bytes((k + 1, 2)) + part) for k, part in enumerate(icc)),
        segment(0xE2, b"MPF\0" + MARK),
        segment(0xEB, b"JP\0\x01 jumb c2pa" + MARK),
        segment(0xED, b"Photoshop 3.0\x008BIM" + MARK),
        segment(0xEE, b"Adobe\0\x64\0\0\0\0\x01" + MARK),
        b"\xff\xff",
        segment(0xFE, MARK),
        MARK,
    ]
    thumbnail = b"JFIF\0\x01\x02\x01\0\x48\0\x48\x01\x01" + MARK[:3]
    head = 2 + 2 + struct.unpack(">H", _JPEG[4:6])[0]
    return _JPEG[:2] + segment(0xE0, thumbnail) + b"".join(added) + _JPEG[head:] + MARK + _JPEG


def gif(*extensions: bytes, after: bytes = b"") -> bytes:
    """Two frames of 4 × 2, without compression: every pixel is a code, after a code that clears the table."""
    palette = bytes((200, 30, 30, 30, 30, 200, 30, 200, 30, 250, 250, 250))

    def frame(pixels):
        bits = 0
        for k, code in enumerate([4, *pixels[:2], 4, *pixels[2:4], 4, *pixels[4:6], 4, *pixels[6:], 5]):
            bits |= code << (3 * k)
        codes = bits.to_bytes(5, "little")
        return b"!\xf9\x04\x08\x0a\0\0\0" + b",\0\0\0\0\x04\0\x02\0\0\x02" + bytes((5,)) + codes + b"\0"

    frames = frame([0, 1, 2, 3, 3, 2, 1, 0]) + b"".join(extensions[2:]) + frame([3, 3, 0, 0, 1, 1, 2, 2])
    head = b"GIF89a\x04\0\x02\0\x91\0\0" + palette
    return head + b"".join(extensions[:2]) + frames + b";" + after


def marked_gif() -> bytes:
    loop = b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0" + bytes((len(MARK),)) + MARK + b"\0"
    comment = b"!\xfe" + bytes((len(MARK),)) + MARK + b"\0"
    trailer = b"\x01" + bytes(range(255, -1, -1)) + b"\0"
    xmp = b"!\xff\x0bXMP DataXMP" + XMP + trailer
    icc = b"!\xff\x0bICCRGBG1012" + bytes((len(MARK),)) + MARK + b"\0"
    text = b"!\x01\x0c" + bytes(12) + bytes((len(MARK),)) + MARK + b"\0"
    return gif(loop, comment, xmp, icc, text, after=MARK)


def riff(form: bytes, *chunks: bytes) -> bytes:
    body = form + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def vp8x(flags: int) -> bytes:
    return chunk(b"VP8X", bytes((flags, 0, 0, 0, 23, 0, 0, 15, 0, 0)))


def marked_webp(picture: bytes = _WEBP, flags: int = 0x2C) -> bytes:
    added = chunk(b"EXIF", exif()) + chunk(b"XMP ", XMP) + chunk(b"C2PA", MARK) + chunk(b"EXIF", MARK)
    return riff(b"WEBP", vp8x(flags), chunk(b"ICCP", PROFILE), chunk(b"what", MARK), picture, added) + MARK


def moving_webp() -> bytes:
    place = struct.pack("<6xI", 0)[:6] + bytes((23, 0, 0, 15, 0, 0, 100, 0, 0, 0))
    frames = [
        chunk(b"ANMF", place + part + chunk(b"note", MARK)) for part in (_WEBP, _WEBP_ALPHA)
    ]  # fmt: skip
    return riff(b"WEBP", vp8x(0x16), chunk(b"ANIM", bytes(6)), *frames, chunk(b"XMP ", XMP))


def wav() -> bytes:
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"".join(struct.pack("<h", (k * 1733) % 20_000 - 10_000) for k in range(801)))
    return data.getvalue()


def marked_wav() -> bytes:
    plain = wav()
    info = chunk(b"LIST", b"INFO" + chunk(b"ISFT", MARK))
    before = (chunk(b"bext", MARK), info, chunk(b"iXML", MARK), chunk(b"fact", struct.pack("<I", 801) + MARK))
    after = (chunk(b"id3 ", b"ID3" + MARK), chunk(b"LIST", b"adtl" + MARK), chunk(b"_PMX", XMP))
    return riff(b"WAVE", before[0], plain[12:36], *before[1:], plain[36:], *after) + MARK


def mp3_frames(count: int = 12) -> bytes:
    """MPEG-1, mono, 44.1 kHz, 32 kbit/s: a few lines of the spectrum in each half of a frame."""
    frames = b""
    for k in range(count):
        bits, width = 0, 0
        half = (
            (64, 12),
            (0, 9),
            (170 + k, 8),
            (0, 4),
            (0, 1),
            (0, 15),
            (0, 4),
            (0, 3),
            (0, 1),
            (0, 1),
            (1, 1),
        )
        for value, size in ((0, 9), (0, 5), (0, 4), *half, *half):
            bits, width = bits << size | value, width + size
        side = bits.to_bytes(width // 8, "big")
        frames += (b"\xff\xfb\x10\xc0" + side + bytes((5, 7, 3 + k)) * 8).ljust(104, b"\0")
    return frames


def information(encoder: bytes, mark: bytes = b"") -> bytes:
    """The frame that tells of the others: 12 frames, 576 samples too many before and 1000 behind."""
    told = b"Info" + struct.pack(">III", 3, 12, 13 * 104)
    lame = encoder.ljust(9)[:9] + bytes(12) + struct.pack(">I", 576 << 12 | 1000)[1:] + bytes(12)
    return (b"\xff\xfb\x10\xc0" + bytes(17) + told + lame + mark).ljust(104, b"\0")


def id3v2(footer: bool = False) -> bytes:
    frame = b"TSSE" + struct.pack(">IH", len(MARK) + 1, 0) + b"\0" + MARK + bytes(200) + b"\xff\xfb\x10\xc0"
    size = bytes((0, 0, len(frame) >> 7, len(frame) & 0x7F))
    end = b"3DI\x04\0\x10" + size if footer else b""
    return b"ID3\x04\0" + bytes((0x10 if footer else 0,)) + size + frame + end


def ape(headed: bool = True) -> bytes:
    item = struct.pack("<II", len(MARK), 0) + b"Tool\0" + MARK

    def end(flags):
        return b"APETAGEX" + struct.pack("<IIII", 2000, len(item) + 32, 1, flags) + bytes(8)

    return (end(0xA0000000) if headed else b"") + item + end(0x80000000 if headed else 0)


def marked_mp3() -> bytes:
    """As programs write them."""
    return id3v2() + information(b"Lavc58.13", MARK) + mp3_frames()


def patched_mp3() -> bytes:
    """Every tag there ever was, also in the middle."""
    lyrics = b"LYRICSBEGININD00002" + MARK + b"000021LYRICS200"
    frames = mp3_frames()
    sound = information(b"LAME3.100", MARK) + frames[:520] + id3v2() + frames[520:]
    return (
        id3v2() + id3v2(footer=True) + sound + ape() + ape(headed=False) + lyrics + b"TAG" + MARK.ljust(125)
    )


def ogg_page(flags: int, granule: int, number: int, *packets: bytes, lacing: bytes | None = None) -> bytes:
    if lacing is None:
        lacing = b"".join(b"\xff" * (len(one) // 255) + bytes((len(one) % 255,)) for one in packets)
    head = b"OggS\0" + bytes((flags,)) + struct.pack("<qII", granule, 77, number)
    body = bytes((len(lacing),)) + lacing + b"".join(packets)
    return head + ogg_checksum(head + bytes(4) + body) + body


def comments(*words: bytes) -> bytes:
    vendor, *others = words
    listed = b"".join(struct.pack("<I", len(one)) + one for one in others)
    return struct.pack("<I", len(vendor)) + vendor + struct.pack("<I", len(others)) + listed


def opus(tags: bytes) -> bytes:
    """Comments on as many pages as they need, and then the sound."""
    head = b"OpusHead\x01\x01" + struct.pack("<HIHB", 312, 48_000, 0, 0)
    lacing = b"\xff" * (len(tags) // 255) + bytes((len(tags) % 255,))
    pages, at = [ogg_page(2, 0, 0, head)], 0
    for start in range(0, len(lacing), 255):
        part = lacing[start : start + 255]
        granule = 0 if part[-1] < 255 else -1
        pages.append(
            ogg_page(bool(start), granule, len(pages), tags[at : at + sum(part)], lacing=part)
        )  # fmt: skip
        at += sum(part)
    sound = ogg_page(0, 2880, len(pages), *_OPUS[:3]) + ogg_page(4, 5112, len(pages) + 1, *_OPUS[3:])
    return b"".join(pages) + sound


def vorbis(words: bytes) -> bytes:
    """Pages as Vorbis has them; the tables and the sound are none."""
    head = b"\x01vorbis" + struct.pack("<IBIiiiBB", 0, 1, 44_100, 0, 64_000, 0, 0xB8, 1)
    tables = b"\x05vorbis" + bytes(range(256)) * 300
    both = b"\x03vorbis" + words + b"\x01", tables
    lacing = b"".join(b"\xff" * (len(one) // 255) + bytes((len(one) % 255,)) for one in both)
    cut = sum(lacing[:255])
    data = b"".join(both)
    return b"".join(
        (
            ogg_page(2, 0, 0, head),
            ogg_page(0, 0, 1, data[:cut], lacing=lacing[:255]),
            ogg_page(1, 0, 2, data[cut:], lacing=lacing[255:]),
            ogg_page(0, 1024, 3, b"sound", b"more"),
            ogg_page(4, 2048, 4, b"end"),
        )
    )


def flac(*blocks: tuple[int, bytes], after: bytes = b"") -> bytes:
    """One frame of 192 samples of 8 bits, as they are."""
    samples = bytes((k * 37) % 256 for k in range(192))
    head = b"\xff\xf8\x10\x02\0"
    frame = head + bytes((plain_crc(head, 0x07, 8),)) + b"\x02" + samples
    frame += struct.pack(">H", plain_crc(frame, 0x8005, 16))
    told = (
        struct.pack(">HH", 192, 192)
        + bytes(6)
        + (44_100 << 44 | 7 << 36 | 192).to_bytes(8, "big")
        + bytes(16)
    )
    described = [(0, told), *blocks]
    parts = [
        bytes((kind | 0x80 * (k == len(described) - 1),)) + len(held).to_bytes(3, "big") + held
        for k, (kind, held) in enumerate(described)
    ]
    return b"fLaC" + b"".join(parts) + frame + after


def plain_crc(data: bytes, polynomial: int, width: int) -> int:
    found = 0
    for byte in data:
        found ^= byte << (width - 8)
        for _ in range(8):
            found = found << 1 ^ (polynomial if found >> (width - 1) else 0)
            found &= (1 << width) - 1
    return found


def marked_flac() -> bytes:
    seek = struct.pack(">QQH", 0, 0, 192)
    blocks = (
        (4, comments(MARK, b"ENCODER=" + MARK)),
        (3, seek),
        (
            6,
            struct.pack(">II", 3, 9)
            + b"image/png"
            + struct.pack(">I", len(MARK))
            + MARK
            + bytes(16)
            + struct.pack(">I", len(MARK))
            + MARK,
        ),
        (2, b"argn" + MARK),
        (1, bytes(40)),
    )
    return flac(*blocks, after=ape())


_WORDS = comments(MARK, b"ENCODER=" + MARK)
#: Media type, the file with nothing in it but itself, and with the mark in every place there is.
FILES: dict[str, tuple[str, bytes, bytes]] = {
    "png": ("image/png", png(), marked_png()),
    "jpeg": ("image/jpeg", _JPEG, marked_jpeg()),
    "gif": ("image/gif", gif(), marked_gif()),
    "webp": ("image/webp", riff(b"WEBP", _WEBP), marked_webp()),
    "webp with alpha": ("image/webp", riff(b"WEBP", vp8x(0x10), _WEBP_ALPHA), marked_webp(_WEBP_ALPHA, 0x3C)),
    "moving webp": ("image/webp", riff(b"WEBP", _WEBP), moving_webp()),
    "wav": ("audio/wav", wav(), marked_wav()),
    "mp3": ("audio/mpeg", mp3_frames(), marked_mp3()),
    "patched mp3": ("audio/mpeg", mp3_frames(), patched_mp3()),
    "opus": ("audio/ogg", opus(b"OpusTags" + comments(b"")), opus(b"OpusTags" + _WORDS)),
    "opus with a cover": (
        "audio/ogg",
        opus(b"OpusTags" + comments(b"")),
        opus(b"OpusTags" + comments(MARK, MARK * 9000)),
    ),
    "vorbis": ("audio/ogg", vorbis(comments(b"")), vorbis(_WORDS)),
    "flac": ("audio/flac", flac(), marked_flac()),
}
