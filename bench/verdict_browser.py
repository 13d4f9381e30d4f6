"""What the judge said, with 10,000 verdicts: `python bench/verdict_browser.py --out RESULTS.md --pictures FOLDER`.

Two recorded judges compare five invented models on sums, by `tiltyard run`. A Chromium opens the report from disk at
three widths, light and dark: how much is loaded, how long a filter and a match take, what axe finds. Needs playwright,
Debian's chromium, and `python hatch_build.py --check` once, for axe.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import yaml
from playwright.sync_api import Browser, Page, sync_playwright

from small_png import small_png

HERE = Path(__file__).resolve().parent
AXE = HERE.parent / "frontend/node_modules/axe-core/axe.min.js"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-gpu", "--hide-scrollbars"]
SIZES = {"-phone": (390, 844), "": (1280, 800), "-wide": (1920, 1080)}
MODELS = {"heron": 0.95, "plover": 0.85, "wren": 0.7, "avocet": 0.6, "dunlin": 0.45}
JUDGES = {"judge-large": 0.06, "judge-small": 0.2}
DIMENSIONS = ("factuality", "calibration")
KINDS = {"sum": "+", "difference": "−", "product": "×"}
PROMPTS = 125
#: Bytes that opening the page, the list and a match may load together.
MOST_BYTES = 300_000
#: The pictures of the documentation.
KEPT = ("said", "said-phone", "said-phone-list", "said-wide-dark")
#: Milliseconds of every choice of a model.
FILTER_TIMES = """() => {
  const field = document.querySelector("select[name=a]"), times = [];
  for (const option of field.options) {
    const start = performance.now();
    field.value = option.value;
    field.dispatchEvent(new Event("input", {bubbles: true}));
    times.push(performance.now() - start);
  }
  field.value = "";
  field.dispatchEvent(new Event("input", {bubbles: true}));
  return times;
}"""


def asked(number: int) -> tuple[str, str, int]:
    """The kind, the text and the answer of a prompt."""
    rng = random.Random(number)
    kind = list(KINDS)[number % len(KINDS)]
    one, other = rng.randrange(12, 99), rng.randrange(12, 99)
    result = {"sum": one + other, "difference": one - other, "product": one * other}[kind]
    return kind, f"What is {one} {KINDS[kind]} {other}? Say how you got there and how sure you are.", result


def answered(model: str, number: int) -> tuple[str, bool]:
    """A response, and whether it is right."""
    rng = random.Random(f"{model} {number}")
    kind, text, result = asked(number)
    right = rng.random() < MODELS[model]
    shown = result if right else result + rng.choice((-10, -2, -1, 1, 3, 10))
    task = text.removeprefix("What is ").partition("?")[0]
    parts = [
        f"{task} = {shown}.",
        rng.choice(
            ("I split the numbers into tens and units", "I rounded one number and corrected it at the end")
        )
        + f", which is the quickest way to a {kind} of two numbers of two digits.",
        rng.choice(
            (
                "I am certain.",
                "I am fairly sure, and checked it in reverse.",
                "I may have slipped in the units.",
            )
        ),
    ]
    return "\n\n".join(parts if rng.random() < 0.7 else parts[:1]), right


def verdict(judge: str, first: str, second: str, number: int) -> str:
    """What a recorded judge says of two responses: mostly the truth, and sometimes for the first slot."""
    rng = random.Random(f"{judge} {first} {second} {number}")
    sides = {"A": answered(first, number), "B": answered(second, number)}
    points = {slot: 2 * right + len(text) / 400 for slot, (text, right) in sides.items()}
    gap = points["A"] - points["B"] + (0.7 if rng.random() < JUDGES[judge] else 0.0)
    if rng.random() < JUDGES[judge] / 20:
        return "Both have their merits, I would say."
    step = (
        "A>>B"
        if gap > 1.5
        else "A>B"
        if gap > 0.2
        else "A=B"
        if gap > -0.2
        else "B>A"
        if gap > -1.5
        else "B>>A"
    )
    said = {slot: "gives the right result" if right else "is wrong" for slot, (_, right) in sides.items()}
    tail = "A explains its way and states how sure it is" if gap > 0 else "B says more about how it got there"
    reasoning = f"Response A {said['A']}; Response B {said['B']}. {tail}, which counts under the rubric."
    both_bad = not (sides["A"][1] or sides["B"][1])
    return json.dumps({"reasoning": reasoning, "verdict": step, "both_bad": both_bad})


def write_lines(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def arrange(folder: Path) -> None:
    """Prompts, answers, configuration, and the replies of both judges."""
    from tiltyard.core.judging.question import question_nonce
    from tiltyard.tournaments.tournament_run import RunRequest, prepare_run

    bank = []
    for number in range(PROMPTS):
        kind, text, result = asked(number)
        bank.append({"prompt_id": f"sum-{number:03d}", "text": text, "category": kind, "gold": str(result)})
    answers = [
        {
            "prompt_id": one["prompt_id"],
            "prompt": one["text"],
            "model": model,
            "response": answered(model, k)[0],
        }
        for k, one in enumerate(bank)
        for model in MODELS
    ]
    write_lines(folder / "prompts.jsonl", bank)
    write_lines(folder / "answers.jsonl", answers)
    judges = [{"model": name, "provider": "replay", "base_url": f"{name}.jsonl"} for name in JUDGES]
    document = {
        "entrants": [{"entrant_id": name} for name in MODELS],
        "prompts": {"bank_path": "prompts.jsonl"},
        "answers": "answers.jsonl",
        "rubrics": {name: {} for name in DIMENSIONS},
        "modes": {"pilot": {"prompts": "all", "judges": judges}},
        "ratings": {"n_bootstraps": 20},
        "elo": {"n_perms": 20},
    }
    (folder / "tournament.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    for name in JUDGES:
        (folder / f"{name}.jsonl").write_text("")
    plan = prepare_run(RunRequest(config_path=folder / "tournament.yaml", mode="pilot"), asking=False).plan
    rubrics = {section.rubric.dimension: section.rubric for section in plan.sections}
    rows: dict[str, list[dict]] = {name: [] for name in JUDGES}
    for question in plan.questions():
        nonce = question_nonce(plan.shown(question), rubrics[question.dimension])
        number = int(question.prompt_id.removeprefix("sum-"))
        text = verdict(question.judge, question.first, question.second, number)
        rows[question.judge].append({"nonce": nonce, "reply": {"text": text}})
    for name, replies in rows.items():
        write_lines(folder / f"{name}.jsonl", replies)


def made_run(folder: Path) -> Path:
    """The folder of the run."""
    os.environ["TILTYARD_HOME"] = str(folder / "home")
    arrange(folder)
    out = folder / "out"
    command = [sys.executable, "-m", "tiltyard", "run", "tournament.yaml", "--output-dir", str(out)]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        [sys.executable, "-m", "tiltyard", "verify", str(out)], check=True, stdout=subprocess.DEVNULL
    )
    return out


class Reader:
    """A page of the report, and what it loaded."""

    def __init__(self, browser: Browser, report: Path, size: tuple[int, int], scheme: str) -> None:
        self._context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, bypass_csp=True
        )
        self.page: Page = self._context.new_page()
        self.report = report
        self.files: set[str] = set()
        self.problems: list[str] = []
        self.page.on("request", lambda request: self.files.add(request.url.partition("#")[0]))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))

    def open(self, inside: str = "") -> None:
        self.page.goto("about:blank")
        self.files.clear()
        self.page.goto(f"{self.report.as_uri()}{inside}")

    @property
    def loaded(self) -> int:
        return sum(
            Path(url.removeprefix("file://")).stat().st_size for url in self.files if url.startswith("file:")
        )

    def grave(self) -> int:
        self.page.add_script_tag(path=AXE)
        found = self.page.evaluate("async () => (await axe.run({resultTypes: ['violations']})).violations")
        return sum(one["impact"] in ("serious", "critical") for one in found)

    def close(self) -> None:
        assert self.problems == [], self.problems
        self._context.close()


def measured(browser: Browser, report: Path, ending: str, scheme: str, pictures: Path | None) -> list[str]:
    """A row of the table; pictures are kept on the way."""
    size = SIZES[ending]
    reader = Reader(browser, report, size, scheme)
    page = reader.page
    reader.open()
    page.wait_for_timeout(500)
    first = reader.loaded
    reader.open("#said?show=flips")
    page.wait_for_selector(".said-list a")
    page.wait_for_function("!document.querySelector('.said-count').textContent.includes('still')")
    listed = reader.loaded
    grave = reader.grave()
    blank = browser.new_page() if pictures else None
    name = f"said{ending}{'-dark' if scheme == 'dark' else ''}"

    def keep(path: str) -> None:
        if pictures is not None and blank is not None and path in KEPT:
            shot = page.screenshot(animations="disabled", caret="hide")
            (pictures / f"{path}.png").write_bytes(small_png(blank, shot))

    if scheme == "light":
        keep(f"{name}-list")
    filters = sorted(page.evaluate(FILTER_TIMES))
    address = page.locator(".said-list a").nth(1).get_attribute("href") or ""
    start = time.perf_counter()
    page.locator(".said-list a").nth(1).click()
    page.wait_for_selector(".said-one .judge")
    opened = 1000 * (time.perf_counter() - start)
    keep(name)
    grave += reader.grave()
    reader.open(address)
    page.wait_for_selector(".said-one .judge")
    shared = reader.loaded
    fits = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert fits
    assert shared < MOST_BYTES
    if blank is not None:
        blank.close()
    reader.close()
    figures = (
        f"{first / 1000:.0f}",
        f"{listed / 1000:.0f}",
        f"{shared / 1000:.0f}",
        f"{filters[-1]:.0f}",
        f"{opened:.0f}",
    )
    return [f"{size[0]:,}", scheme, *figures, str(grave)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pictures", type=Path, help="folder for the pictures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        out = made_run(Path(name))
        verdicts = sum(len(path.read_text().splitlines()) for path in (out / "verdicts").iterdir())
        parts = list((out / "report_data").iterdir())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        rows = [
            measured(browser, out / "report.html", ending, scheme, given.pictures)
            for ending in SIZES
            for scheme in ("light", "dark")
        ]
        browser.close()
    heads = (
        "width, px",
        "theme",
        "page, kB",
        "and list, kB",
        "and a match, kB",
        "slowest filter, ms",
        "a match opens, ms",
        "axe, grave",
    )
    told = (
        f"{datetime.now(UTC):%Y-%m-%d}, by `python bench/verdict_browser.py`: {verdicts:,} questions of two recorded "
        f"judges on five models, {PROMPTS} prompts and {len(DIMENSIONS)} dimensions, planted ones among them. The report "
        f"is opened from disk in Chromium; beside it are {len(parts):,} files. *Page* is what opening it loads, *and "
        "list* what the filtered list needs as well, *and a match* everything that the address of a match loads."
    )
    text = [
        "# What the judge said, measured",
        "",
        told,
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---:|' * len(heads)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]
    print("\n".join(text))
    if given.out is not None:
        given.out.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
