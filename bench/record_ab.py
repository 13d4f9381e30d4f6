# /// script
# requires-python = ">=3.11"
# dependencies = ["inspect-ai", "pyte"]
# ///
"""Record ``tiltyard ab`` on two logs, in a terminal, as an animated SVG: ``uv run bench/record_ab.py OUT.svg``.

Inspect makes two logs of 250 sums by two invented models. The judge is a small server that works the
sums out and speaks OpenAI's protocol. What is shown is what the terminal showed, when it did; typing
is added, and pauses are cut. ``tiltyard`` is taken from the PATH.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SAMPLES = 250
#: How often each invented model is right.
RIGHT = {"baseline": 0.55, "candidate": 0.85}
COLUMNS, ROWS = 92, 18
#: Seconds: to type a character, before a command's first output, between two changes at most, after the last.
TYPED_SECONDS, PAUSE_SECONDS, STILL_SECONDS = 0.03, 0.4, 0.2
WIDTH_PIXELS, LINE_PIXELS, MARGIN_PIXELS = 8.4, 20, 16


def sums() -> list[tuple[str, int, int]]:
    rng = random.Random(1)
    return [(f"sum-{k}", rng.randint(10, 99), rng.randint(10, 99)) for k in range(SAMPLES)]


def make_logs(folder: Path) -> None:
    """Two real Inspect logs, of models that add."""
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match
    from inspect_ai.solver import generate

    samples = [Sample(id=name, input=f"{a} + {b} = ?", target=str(a + b)) for name, a, b in sums()]
    for seed, (model, right) in enumerate(RIGHT.items()):
        rng = random.Random(seed)
        replies = [
            ModelOutput.from_content(model, str(a + b if rng.random() < right else a + b + 10))
            for _, a, b in sums()
        ]
        for reply in replies:
            reply.usage = ModelUsage(input_tokens=12, output_tokens=4, total_tokens=16)
        task = inspect_ai.Task(dataset=samples, solver=generate(), scorer=match(), name="sums")
        answering = get_model("mockllm/model", custom_outputs=replies)
        (log,) = inspect_ai.eval(
            task, model=answering, log_dir=str(folder / model), display="none", max_samples=1, score=True
        )
        shutil.copy(log.location, folder / f"{model}.eval")


class Judge(BaseHTTPRequestHandler):
    """Works each sum out and prefers the right response."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = asked["messages"][-1]["content"]
        told = dict(re.findall(r"<<<BEGIN ([A-Z ]+) \w+>>>\n(.*?)\n<<<END", text, flags=re.DOTALL))
        right = sum(map(int, re.findall(r"\d+", told["PROMPT"])))
        a, b = (told[f"RESPONSE {slot}"].strip() == str(right) for slot in "AB")
        verdict = {1: "A>B", 0: "A=B", -1: "B>A"}[a - b]
        reply = {"reasoning": f"The sum is {right}.", "verdict": verdict, "both_bad": not (a or b)}
        time.sleep(0.02)
        body = json.dumps(
            {
                "id": "sum",
                "object": "chat.completion",
                "model": asked["model"],
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": {"role": "assistant", "content": json.dumps(reply)},
                    }
                ],
                "usage": {
                    "prompt_tokens": len(text) // 4,
                    "completion_tokens": 40,
                    "total_tokens": len(text) // 4 + 40,
                },
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def typed(command: str, at: float, write: Callable[[str, float], None]) -> float:
    """Write the prompt and the command as someone who types; the time when it is entered."""
    write("$ ", at)
    for character in command:
        at += TYPED_SECONDS
        write(character, at)
    write("\r\n", at)
    return at


def output_of(command: str, folder: Path) -> Iterator[tuple[float, bytes]]:
    """What a command writes to a terminal, with the seconds since its start."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "NO_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "OPENAI_API_KEY": "x",
    }
    began = time.monotonic()
    running = subprocess.Popen(
        shlex.split(command),
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        close_fds=True,
    )
    os.close(terminal)
    while True:
        ready, _, _ = select.select([controller], [], [], 0.1)
        if ready:
            try:
                data = os.read(controller, 65536)
            except OSError:
                break
            if not data:
                break
            yield time.monotonic() - began, data
        elif running.poll() is not None:
            break
    os.close(controller)
    if running.wait() not in (0, 5):
        raise SystemExit(f"{command} ended with {running.returncode}")


def record(commands: list[tuple[str, str]], folder: Path) -> list[tuple[float, list[str]]]:
    """Screens, and when each was shown. A command is shown as the first text and run as the second."""
    import pyte

    screen = pyte.Screen(COLUMNS, ROWS)
    feed = pyte.Stream(screen)
    shown: list[tuple[float, list[str]]] = []

    def write(text: str, at: float) -> None:
        feed.feed(text)
        lines = [line.rstrip() for line in screen.display]
        if not shown or shown[-1][1] != lines:
            shown.append((at, lines))

    at = 0.3
    for told, run in commands:
        at = typed(told, at, write) + PAUSE_SECONDS
        before = None
        for seconds, data in output_of(run, folder):
            at += 0.0 if before is None else min(seconds - before, STILL_SECONDS)
            before = seconds
            write(data.decode("utf-8", "replace"), at)
        at += 1.2
    return shown


def spans(screens: list[tuple[float, list[str]]]) -> list[tuple[int, str, float, float | None]]:
    """Each text by row, with the time it appears and the time it is gone, if it is."""
    found: list[tuple[int, str, float, float | None]] = []
    for row in range(ROWS):
        text, since = "", 0.0
        for at, lines in screens:
            if lines[row] != text:
                if text:
                    found.append((row, text, since, at))
                text, since = lines[row], at
        if text:
            found.append((row, text, since, None))
    return found


def svg(screens: list[tuple[float, list[str]]]) -> str:
    height = 2 * MARGIN_PIXELS + ROWS * LINE_PIXELS + 24
    width = 2 * MARGIN_PIXELS + COLUMNS * WIDTH_PIXELS
    last = "\n".join(line for line in screens[-1][1] if line)
    texts = []
    for row, text, since, until in spans(screens):
        end = "" if until is None else f",off 0s {until:.2f}s forwards"
        kind = "" if until is None else ' class="gone"'
        y = MARGIN_PIXELS + 24 + (row + 0.75) * LINE_PIXELS
        texts.append(
            f'<text x="{MARGIN_PIXELS}" y="{y:g}"{kind} style="animation:on {since:.2f}s step-end backwards{end}">'
            f"{escape(text)}</text>"
        )
    lights = "".join(
        f'<circle cx="{MARGIN_PIXELS + 4 + 18 * k}" cy="18" r="5" fill="#57606a"/>' for k in range(3)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">\n'
        f"<title>A terminal: tiltyard ab on two logs</title>\n<desc>{escape(last)}</desc>\n"
        "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        "fill:#e6edf3;white-space:pre}"
        "@keyframes on{from{visibility:hidden}to{visibility:visible}}"
        "@keyframes off{to{visibility:hidden}}"
        "@media (prefers-reduced-motion:reduce){text{animation:none!important}.gone{visibility:hidden}}"
        "</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>{lights}\n'
        + "\n".join(texts)
        + "\n</svg>\n"
    )


def main() -> None:
    out = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    judge = "tiltyard ab baseline.eval candidate.eval --judge sum-checker --rubric factuality"
    address = f" --base-url http://127.0.0.1:{server.server_port}/v1 --price sum-checker=0.5,2"
    scores = "tiltyard ab baseline.eval candidate.eval"
    with tempfile.TemporaryDirectory() as folder:
        make_logs(Path(folder))
        screens = record([(scores, scores), (judge, judge + address)], Path(folder))
    out.write_text(svg(screens), encoding="utf-8")
    print("\n".join(line for line in screens[-1][1] if line))


if __name__ == "__main__":
    main()
