"""Files of images and audio say nothing of themselves once they are blinded, and hostile ones do no harm."""

import io
import struct
import time
import wave
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.media_files import (
    FILES,
    MARK,
    WIDE,
    ape,
    chunk,
    flac,
    gif,
    id3v2,
    information,
    mp3_frames,
    ogg_page,
    plain_crc,
    png,
    png_chunk,
    riff,
    segment,
    wav,
)
from tiltyard.arena.content.blinding import media_chunks, strip_metadata
from tiltyard.arena.content.blinding.images import (
    MAX_PROFILE_BYTES,
    check_image_size,
    keep_orientation_only,
    strip_profile_text,
)
from tiltyard.errors import InputError

MANY = 2_000
JPEG, WEBP = FILES["jpeg"][1], FILES["webp"][1]
#: Beginnings that sniffing lets through, and how a part of the format is written.
SOUPS = {
    "image/png": (png()[:33], png_chunk, png()[33:]),
    "image/jpeg": (b"\xff\xd8", lambda name, held: segment(name[0], held), JPEG[2:]),
    "image/gif": (gif()[:25], lambda name, held: b"!" + name[:1] + bytes((len(held),)) + held + b"\0", gif()[25:]),
    "audio/flac": (flac()[:4], lambda name, held: bytes((5 + name[0] % 100,)) + len(held).to_bytes(3, "big") + held,
                   flac()[4:]),
}  # fmt: skip


def tried(media, data):
    """The blinded file; nothing if it was refused."""
    try:
        return strip_metadata(media, data)
    except InputError as error:
        told = str(error)
    assert told.startswith("these bytes")
    return b""


def unmarked(data):
    return not [one for one in (MARK, WIDE, MARK[:5], b"LAME3", b"Lavc", b"Exif\0\0MM") if one in data]


@pytest.mark.parametrize("name", FILES)
def test_no_word_is_left_and_a_bare_file_stays_as_it_is(name):
    media, bare, marked = FILES[name]
    found = strip_metadata(media, marked)
    assert unmarked(found)
    assert strip_metadata(media, found) == found
    assert strip_metadata(media, bare) == bare


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_short_anywhere_is_refused_or_says_nothing(name):
    media, _, marked = FILES[name]
    step = max(1, len(marked) // 400)
    for length in range(4, len(marked), step):
        assert unmarked(tried(media, marked[:length])), length


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
def test_a_damaged_file_is_blinded_or_refused(name, data):
    media, _, marked = FILES[name]
    spoiled = bytearray(marked[:4000])
    for _ in range(data.draw(st.integers(1, 4))):
        spoiled[data.draw(st.integers(4, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    tried(media, bytes(spoiled))


@pytest.mark.parametrize("media", SOUPS)
@given(parts=st.lists(st.tuples(st.binary(min_size=4, max_size=4), st.binary(max_size=9)), max_size=8))
@example([(b"\xe1\0\0\0", b"Exif\0\0"), (b"\xe2\0\0\0", b"ICC_PROFILE\0"), (b"\xee\0\0\0", b"Adobe")])
@example([(b"iCCP", b"x\0"), (b"eXIf", b"MM\0*\0\0\0\x08\x00\xff")])
@example([(b"\xff\0\0\0", b"NETSCAPE2.0")])
@example([(b"tRNS", b"")])
@example([(b"PLTE", b"ab")])
def test_what_stands_in_parts_that_nobody_knows_goes(media, parts):
    start, written, rest = SOUPS[media]
    soup = start + b"".join(written(name, held + MARK) for name, held in parts) + rest
    assert MARK not in tried(media, soup) or any(_is_coded(media, name) for name, _ in parts)


def _is_coded(media, name):
    """Whether a drawn name is by chance that of a part which is kept: nothing can be known of what it holds."""
    if media == "image/jpeg":
        return 0xC0 <= name[0] <= 0xDF
    return name in (b"IDAT", b"fdAT")


@given(data=st.binary(max_size=200), start=st.sampled_from(sorted(FILES)))
def test_nothing_but_an_input_error_comes_of_any_bytes(data, start):
    media, bare, _ = FILES[start]
    for soup in (bare[:12] + data, bare[: len(bare) // 2] + data + bare[len(bare) // 2 :]):
        tried(media, soup)


@pytest.mark.parametrize(
    ("media", "data", "told"),
    [
        ("image/png", png()[:40], "at byte 33, a chunk runs past the end"),
        ("image/png", png()[:8] + png_chunk(b"IEND", b""), "at byte 8, the header is not where it belongs"),
        ("image/png", png()[:33] + png_chunk(b"IEND", b""), "at byte 33, it ends without a picture"),
        ("image/png", png()[:50] + b"!" + png()[51:], "at byte 33, the checksum of a chunk is wrong"),
        ("image/png", png(png_chunk(b"PLTE", MARK)), "at byte 33, a chunk PLTE has a length that it cannot have"),
        ("image/jpeg", b"\xff\xd8\xff\xd9", "at byte 4, it ends without a picture"),
        ("image/jpeg", JPEG[:-2], "it ends without the mark of its end"),
        ("image/jpeg", b"\xff\xd8\xff\xe0\0\x01", "at byte 2, a segment runs past the end"),
        ("image/gif", gif()[:25] + b";", "at byte 25, it ends without a picture"),
        ("image/gif", gif()[:25] + b"?", "at byte 25, there is no block that a GIF image can have"),
        ("image/gif", gif()[:-1], "it ends early"),
        ("image/webp", riff(b"WEBP", chunk(b"XMP ", MARK)), "it ends without a picture"),
        ("image/webp", WEBP[:-1], "at byte 4, the length should be 115 and is 116"),
        ("image/webp", riff(b"WEBP", WEBP[12:40]), "at byte 12, a chunk runs past the end"),
        ("audio/wav", riff(b"WAVE", chunk(b"data", b"12")), "the samples come before what says how"),
        ("audio/wav", riff(b"WAVE", wav()[12:36], chunk(b"data", b"")), "at byte 36, there are no samples"),
        ("audio/wav", wav()[:30], "at byte 12, a chunk runs past the end"),
        ("audio/mpeg", id3v2(), "at byte 0, no frame of sound begins here or later"),
        ("audio/ogg", b"OggS" + bytes(40), "at byte 0, the checksum of a page is wrong"),
        ("audio/ogg", ogg_page(2, 0, 0, b"Speex   1.2"), "something other than Vorbis or Opus in it, at byte 0"),
        ("audio/ogg", ogg_page(0, 0, 0, b"OpusHead"), "a page belongs to no stream"),
        ("audio/ogg", ogg_page(2, 0, 0, b"OpusHead"), "at byte 36, a stream ends before its headers do"),
        ("audio/ogg", ogg_page(2, 0, 0, b"OpusHead", b"\x03vorbis"), "a header is missing, or not in its place"),
        ("audio/ogg", ogg_page(2, 0, 0, b"OpusHead", b"OpusTags", b"x"), "sound begins on the page of its headers"),
        ("audio/ogg", FILES["opus"][1] + b"Ogg", "at byte 416, there is no page"),
        ("audio/ogg", FILES["opus"][1][:-1], "a page runs past the end"),
        ("audio/flac", flac()[:20], "at byte 4, a block runs past the end"),
        ("audio/flac", flac()[:42], "at byte 42, there is no frame after the blocks"),
    ],
)  # fmt: skip
def test_what_cannot_be_walked_is_told_with_its_place(media, data, told):
    with pytest.raises(InputError, match="these bytes") as error:
        strip_metadata(media, data)
    assert told in str(error.value)


def test_texts_and_apps_stay_as_they_are():
    assert strip_metadata("text/html; charset=utf-8", b"<html>") == b"<html>"


def test_a_sound_whose_length_was_not_known_ends_with_its_file():
    """As programs write it that write into a pipe."""
    plain = wav()
    for unknown in (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f"):
        endless = plain[:4] + unknown + plain[8:40] + unknown + plain[44:]
        assert strip_metadata("audio/wav", endless) == plain
    with wave.open(io.BytesIO(strip_metadata("audio/wav", FILES["wav"][2]))) as file:
        assert file.getnframes() == 801


def test_frames_of_mp3_keep_how_many_samples_are_too_many_and_lose_the_encoder():
    found = strip_metadata("audio/mpeg", information(b"Lavc58.13", MARK) + mp3_frames())
    told = found[:104]
    assert told[21:37] == b"Info" + struct.pack(">III", 3, 12, 13 * 104)
    assert told[37:46] == b"LAME".ljust(9, b"\0")
    assert told[58:61] == struct.pack(">I", 576 << 12 | 1000)[1:]
    unknown = strip_metadata("audio/mpeg", information(b"Gogo", MARK) + mp3_frames())
    assert not any(unknown[37:104])
    short = strip_metadata("audio/mpeg", (b"\xff\xfb\x10\xc0" + bytes(17) + b"Xing"))
    assert short.endswith(b"Xing")


def test_a_table_of_places_stays_and_what_follows_it_goes():
    table = b"VBRI" + struct.pack(">HHHIIHHHH", 1, 0, 75, 1352, 12, 2, 1, 2, 6) + b"\0\x68\0\x68"
    frame = (b"\xff\xfb\x10\xc0" + bytes(32) + table + MARK).ljust(104, b"\0")
    found = strip_metadata("audio/mpeg", frame + mp3_frames())
    assert found[36:66] == table
    assert MARK not in found


def test_tags_behind_flac_go():
    for tags in (b"TAG" + MARK.ljust(125), ape(), ape(headed=False), ape() + b"TAG" + MARK.ljust(125)):
        assert strip_metadata("audio/flac", flac(after=tags)) == flac()
    assert strip_metadata("audio/flac", flac((5, MARK), (77, MARK))) == flac()


def test_checksums_of_ogg_are_those_of_the_format():
    page = ogg_page(2, 0, 0, b"OpusHead")
    assert page[22:26] == plain_crc(page[:22] + bytes(4) + page[26:], 0x04C11DB7, 32).to_bytes(4, "little")


def test_pages_of_ogg_are_numbered_without_gaps():
    found = strip_metadata("audio/ogg", FILES["opus with a cover"][2] + FILES["opus"][2])
    numbers = [struct.unpack_from("<I", found, at + 18)[0] for at in _places(found, b"OggS")]
    assert numbers == [0, 1, 2, 3, 0, 1, 2, 3]


def _places(data, what):
    at = data.find(what)
    while at >= 0:
        yield at
        at = data.find(what, at + 1)


def test_a_profile_is_numbers_and_none_that_unfolds():
    profile = strip_profile_text(_profile_of(FILES["webp"][2]))
    assert len(profile) == int.from_bytes(profile[:4], "big")
    assert strip_profile_text(profile) == profile
    head = profile[:128]
    overlapping = b"".join(name + struct.pack(">II", 0, 600) for name in (b"rXYZ", b"gXYZ"))
    for bad in (
        b"",
        head + b"\0\0\xff\xff",
        head + struct.pack(">I", 1) + b"rXYZ" + struct.pack(">II", 0, 10**9),
        head + struct.pack(">I", 3) + overlapping,
        profile.ljust(MAX_PROFILE_BYTES + 1, b"\0"),
    ):
        assert strip_profile_text(bad) is None
    value = b"curv" + bytes(8)
    twice = [b"rTRC" + struct.pack(">II", 156, 12), b"gTRC" + struct.pack(">II", 156, 200)]
    folded = head + struct.pack(">I", 2) + b"".join(twice) + value + bytes(188)
    assert strip_profile_text(folded) is not None
    assert (
        strip_profile_text(folded.replace(struct.pack(">II", 156, 12), struct.pack(">II", 156, 199))) is None
    )
    bomb = png_chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(9_000_000)))
    assert strip_metadata("image/png", png(bomb, png_chunk(b"iCCP", b"x\0\0no"))) == png()


def _profile_of(webp):
    at = webp.index(b"ICCP")
    return webp[at + 8 : at + 8 + int.from_bytes(webp[at + 4 : at + 8], "little")]


@pytest.mark.parametrize(("value", "kept"), [(1, False), (6, True), (8, True), (9, False), (0, False)])
def test_only_a_picture_that_is_turned_keeps_exif(value, kept):
    for order, mark in (("<", b"II*\0"), (">", b"MM\0*")):
        exif = mark + struct.pack(f"{order}IHHHIHHI", 8, 1, 0x0112, 3, 1, value, 0, 0)
        assert bool(keep_orientation_only(exif)) == kept
        if kept:
            assert keep_orientation_only(keep_orientation_only(exif)) == keep_orientation_only(exif)
            assert keep_orientation_only(b"Exif\0\0" + exif).startswith(b"Exif\0\0II*\0")
    assert keep_orientation_only(b"II*\0\x08\0\0\0\xff\xff" + bytes(30)) == b""
    assert keep_orientation_only(b"what") == b""


@pytest.mark.parametrize(
    ("media", "data"),
    [
        ("image/png", png()[:33] + png_chunk(b"teXt", b"") * (MANY + 1)),
        ("image/jpeg", b"\xff\xd8" + b"\xff\xe5\0\2" * (MANY + 1)),
        ("image/gif", gif()[:25] + b"!\xfe" + b"\1x" * (MANY + 1)),
        ("image/webp", riff(b"WEBP", chunk(b"what", b"") * (MANY + 1))),
        ("audio/mpeg", mp3_frames() + b"\xff\xfb\xf0" * (MANY + 1)),
        ("audio/flac", flac()[:42].replace(b"\x80\0\0\x22", b"\0\0\0\x22") + b"\1\0\0\0" * (MANY + 1)),
    ],
)
def test_a_file_of_too_many_parts_is_refused(monkeypatch, media, data):
    monkeypatch.setattr(media_chunks, "PART_LIMIT", MANY)
    with pytest.raises(InputError, match=f"more than {MANY} parts"):
        strip_metadata(media, data)


@pytest.mark.parametrize(
    ("media", "data"),
    [
        ("image/jpeg", b"\xff\xd8" + b"\xff" * 2_000_000 + b"\0"),
        ("image/jpeg", JPEG[:-2] + b"\xff\0" * 1_000_000),
        ("audio/mpeg", b"\xff\xfb" * 200_000),
        ("audio/mpeg", b"ID3\4" * 500_000),
        ("audio/flac", flac() + b"TAG".ljust(128) * 15_000),
    ],
)
def test_time_grows_with_length_alone(media, data):
    began = time.process_time()
    tried(media, data)
    assert time.process_time() - began < 5.0


def huge(name):
    """A file of each format that states more pixels than a browser should be given."""
    media, bare, _ = FILES[name]
    data = bytearray(bare)
    if media == "image/png":
        data[16:24] = b"\0\0\xff\xff" * 2
    elif media == "image/gif":
        data[6:10] = b"\xff" * 4
    elif media == "image/jpeg":
        at = data.find(b"\xff\xc0")
        data[at + 5 : at + 9] = b"\xff" * 4
    elif data[12:16] == b"VP8X":
        data[24:30] = b"\xff\xff\0" * 2
    elif data[12:16] == b"VP8L":
        data[21:25] = b"\xff" * 4
    else:
        data[26:30] = b"\xff\x3f" * 2
    return media, bytes(data)


@pytest.mark.parametrize("name", [name for name, (media, *_) in FILES.items() if media.startswith("image/")])
def test_an_image_of_giant_dimensions_is_refused(name):
    media, bare, marked = FILES[name]
    check_image_size(media, bare)
    check_image_size(media, marked)
    for length in range(12, 40):
        check_image_size(media, bare[:length])
    with pytest.raises(InputError, match="100,000,000"):
        check_image_size(*huge(name))
