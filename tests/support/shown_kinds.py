"""Arenas whose responses are texts in several languages, images, sounds and apps."""

import asyncio
import io
import json
import struct
import tempfile
import wave
import zlib
from dataclasses import replace
from pathlib import Path

from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import open_pool
from tiltyard.settings.arena_settings import ArenaSettings

#: Tries everything that it must not be able to do, and says what came of it.
APP = """<!doctype html><meta charset="utf-8"><title>app</title><body><p id="out">starting</p><script>
const told = {};
const attempt = (name, act) => { try { told[name] = String(act()); } catch (error) { told[name] = "refused"; } };
attempt("parent", () => parent.document.title);
attempt("cookie", () => document.cookie);
attempt("storage", () => localStorage.length);
attempt("rtc", () => new RTCPeerConnection());
if (parent !== window) attempt("top", () => { top.location = "/stolen"; return "sent"; });
const asked = fetch("/api/v1/me").then(() => "reached", () => "refused");
const image = new Promise((done) => { const one = new Image(); one.onload = () => done("reached");
  one.onerror = () => done("refused"); one.src = "/tripwire.png"; });
Promise.all([asked, image]).then(([fetched, shown]) => {
  told.fetch = fetched; told.image = shown; told.ran = "yes";
  document.getElementById("out").textContent = JSON.stringify(told);
});
</script></body>"""


def png(red: int, green: int, blue: int, size: int = 240) -> bytes:
    """A picture of one colour."""
    rows = (b"\x00" + bytes((red, green, blue)) * size) * size

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def sound(seconds: float = 0.3) -> bytes:
    """A short silence."""
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(int(8000 * seconds) * 2))
    return data.getvalue()


async def _filled(
    url: str,
    store: Path,
    name: str,
    rows: list[dict[str, str]],
    files: dict[str, bytes],
    settings: ArenaSettings | None,
    policy: Policy | None,
    title: str | None,
) -> Arena:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        for file, data in files.items():
            (Path(folder) / file).write_bytes(data)
        async with open_pool(url, most=2) as pool:
            made = await create_arena(pool, name, title=title, settings=settings, policy=policy)
            await import_answers(pool, BlobStore(pool, FolderStorage(store)), name, path)
    return made


def fill_arena(
    url: str,
    store: Path,
    name: str,
    rows: list[dict[str, str]],
    files: dict[str, bytes] | None = None,
    *,
    settings: ArenaSettings | None = None,
    policy: Policy | None = None,
    title: str | None = None,
) -> Arena:
    """An arena with these answers; ``store`` is where large responses are kept. Names are told after each vote."""
    settings = replace(settings or ArenaSettings(), reveal="vote")
    return asyncio.run(_filled(url, store, name, rows, files or {}, settings, policy, title))
