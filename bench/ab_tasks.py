# /// script
# requires-python = ">=3.11"
# dependencies = ["inspect-ai", "pyyaml"]
# ///
"""Five tasks of `tiltyard ab`, each in an empty environment, as its documentation says: ``uv run bench/ab_tasks.py WHEEL``.

The wheel is built by ``uv build --wheel``, what it needs comes from PyPI. Inspect makes the two logs, ``npx promptfoo``
the results; its models, and the judge, are a server on loopback that adds. The action's steps run in bash as a runner
would run them, with its variables. Prints a table of commands, seconds and exit codes; stops at one that is not expected.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from record_ab import make_logs, sums

ROOT = Path(__file__).parents[1]
RIGHT = {"before": 0.5, "after": 0.8}


def answer(a: int, b: int, model: str) -> str:
    """What an invented model says: before, it is wrong more often."""
    right = random.Random(f"{model} {a} {b}").random() < RIGHT[model]
    total = a + b if right else a + b + 10
    return (
        f"Take {a} and add {b} to it. Tens and ones are added by themselves, which gives {total} in the end."
    )


class Adder(BaseHTTPRequestHandler):
    """Answers sums, and judges answers to them: a right whole one is better than a wrong whole one, any whole one than none."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = asked["messages"][-1]["content"]
        texts = dict(re.findall(r"<<<BEGIN ([A-Z ]+) \w+>>>\n(.*?)\n<<<END", text, flags=re.DOTALL))
        if texts:
            a, b = map(int, re.findall(r"\d+", texts["PROMPT"]))
            whole = {answer(a, b, model): right for model, right in RIGHT.items()}
            points = [
                (text in whole) + text.endswith(f" {a + b} in the end.")
                for text in (texts.get(f"RESPONSE {slot}", "").strip() for slot in "AB")
            ]
            verdict = "A=B" if points[0] == points[1] else "A>B" if points[0] > points[1] else "B>A"
            said = json.dumps(
                {"reasoning": f"It is {a + b}.", "verdict": verdict, "both_bad": max(points) < 2}
            )
        else:
            said = answer(*map(int, re.findall(r"\d+", text)), asked["model"])
        used = {"prompt_tokens": len(text) // 4, "completion_tokens": 40, "total_tokens": len(text) // 4 + 40}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
        reply = {
            "id": "sum",
            "object": "chat.completion",
            "model": asked["model"],
            "choices": [choice],
            "usage": used,
        }
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def prepare(folder: Path, address: str, promptfoo: str) -> None:
    """What the stranger has: logs, results, tables."""
    make_logs(folder)
    for model in RIGHT:
        with (folder / f"{model}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["prompt", "response", "accuracy", "scores.latency"])
            for _, a, b in sums():
                said, latency = answer(a, b, model), random.Random(f"{model} {a}").uniform(1.0, 2.0)
                right = said.endswith(f" {a + b} in the end.")
                table.writerow([f"What is {a} + {b}?", said, int(right), f"{latency:.3f}"])
    config = {
        "prompts": ["What is {{a}} + {{b}}?"],
        "providers": [
            {"id": f"openai:chat:{model}", "config": {"apiBaseUrl": address, "apiKey": "none"}}
            for model in RIGHT
        ],
        "tests": [
            {"vars": {"a": a, "b": b}, "assert": [{"type": "contains", "value": f" {a + b} in the end"}]}
            for _, a, b in sums()[:100]
        ],
    }
    (folder / "promptfooconfig.yaml").write_text(yaml.safe_dump(config))
    quiet = {
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PROMPTFOO_CONFIG_DIR": str(folder),
    }
    command = [*shlex.split(promptfoo), "eval", "--no-cache", "--no-table", "-o", "results.json"]
    # It exits with 100 where tests fail, as some of them shall.
    subprocess.run(command, cwd=folder, env=os.environ | quiet, stdout=subprocess.DEVNULL, check=False)


FRAMES = """\
import pandas as pd
import tiltyard

before, after = pd.read_csv("before.csv"), pd.read_csv("after.csv")


def right(prompt: str, first: str, second: str) -> str:
    a, b = prompt.removeprefix("What is ").rstrip("?").split(" + ")
    parts = f"Take {a} and add {b} to it. ", f" {int(a) + int(b)} in the end.", " in the end."
    one, other = (text.startswith(parts[0]) + sum(map(text.endswith, parts[1:])) for text in (first, second))
    return "tie" if one == other else "A" if one > other else "B"


report = tiltyard.ab(before[["prompt", "response"]], after[["prompt", "response"]], judge=right, judge_version="1")
print(report)
print(report.verdict)
"""


def action_steps(inputs: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """What the action runs, and the variables that it sets from the inputs."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: one.get("default", "") for name, one in action["inputs"].items()} | inputs
    for step in action["runs"]["steps"]:
        values = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: given[m[1]], value)
            for name, value in step["env"].items()
        }
        yield step["run"], values


class Stranger:
    """An empty environment, and what is typed in it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.typed, self.seconds = name, folder, list[str](), list[float]()
        self.place = Path(tempfile.mkdtemp(prefix="stranger-"))
        subprocess.run([sys.executable, "-m", "venv", self.place], check=True)
        kept = {
            name: value for name, value in os.environ.items() if name.startswith(("PIP_", "LANG", "SSL_"))
        }
        self.variables = kept | {"PATH": f"{self.place}/bin:/usr/bin:/bin", "HOME": str(self.place)}

    def enter(self, command: str, *codes: int, shown: str | None = None, **variables: str) -> None:
        """Run a command; its exit code must be one of these, 0 if none is named."""
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.variables | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.seconds.append(time.monotonic() - began)
        self.typed.append(f"`{shown or command}` → {done.returncode}")
        print(f"$ {shown or command}\n{done.stdout}", file=sys.stderr, flush=True)
        if done.returncode not in (codes or (0,)):
            sys.exit(f"{self.name}: exit code {done.returncode}")

    def row(self) -> str:
        install, *rest = self.seconds
        return f"| {self.name} | {'; '.join(self.typed[1:])} | {install:.0f} s | {sum(rest):.0f} s |"


def tasks(wheel: Path, folder: Path, address: str) -> Iterator[str]:
    plain, judged = f"pip install --quiet '{wheel}'", f"pip install --quiet '{wheel}[judges]'"
    logs = Stranger("two Inspect logs", folder)
    logs.enter(plain)
    logs.enter("tiltyard ab baseline.eval candidate.eval --margin 0.02")
    yield logs.row()
    results = Stranger("one promptfoo file", folder)
    results.enter(plain)
    results.enter("tiltyard ab results.json --a openai:chat:before --b openai:chat:after")
    yield results.row()
    tables = Stranger("two CSVs with a judge", folder)
    tables.enter(judged)
    ask = "tiltyard ab before.csv after.csv --judge adder --base-url"
    tables.enter(f"{ask} {address}", shown=f"{ask} ADDRESS")
    yield tables.row()
    frames = Stranger("frames, a function as judge", folder)
    frames.enter(f"{judged} pandas")
    (folder / "compare.py").write_text(FRAMES)
    frames.enter("python compare.py")
    yield frames.row()
    action = Stranger("the action", folder)
    own = {"version": f"{wheel}[judges]"}
    asked = {
        "by scores with guards": {
            "a": "before.csv",
            "b": "after.csv",
            "score": "accuracy",
            "guard": "latency=0.2",
            "lower": "latency",
        },
        "by a judge": {
            "a": "before.csv",
            "b": "after.csv",
            "judge": "adder",
            "base-url": address,
            "api-key-env": "JUDGE_KEY",
        },
        "worse": {"a": "after.csv", "b": "before.csv", "score": "accuracy"},
    }
    for number, (what, inputs) in enumerate(asked.items()):
        files = {
            name: folder / f"{name.lower()}-{number}" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
        }
        variables = {name: str(file) for name, file in files.items()}
        variables |= {"GITHUB_ACTIONS": "true", "CI": "true", "RUNNER_TEMP": str(folder), "JUDGE_KEY": "none"}
        install, compare = action_steps(own | inputs)
        action.enter(install[0], shown=f"step 1, {what}", **variables, **install[1])
        action.enter(compare[0], int(what == "worse"), shown=f"step 2, {what}", **variables, **compare[1])
        print(*(file.read_text() for file in files.values()), file=sys.stderr)
    yield action.row()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument(
        "--promptfoo", default="npx --yes promptfoo@latest", help="how promptfoo is called here"
    )
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Adder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    folder, address = Path(tempfile.mkdtemp(prefix="tasks-")), f"http://127.0.0.1:{server.server_port}/v1"
    prepare(folder, address, options.promptfoo)
    print("| task | commands → exit code | install | the rest |\n|---|---|--:|--:|")
    for row in tasks(options.wheel.resolve(), folder, address):
        print(row, flush=True)


if __name__ == "__main__":
    main()
