"""The section *What the judge said* of a report, opened from disk in a real browser."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from support.browsing import DESKTOP, PHONE, Visit, axe
from support.hostile_text import PAYLOADS
from support.judged_runs import answers_of, judged_of, made_run, prompts_of, written
from tiltyard.core.judging.judged_question import reparse
from tiltyard.core.judging.reconciliation import group_verdicts
from tiltyard.core.judging.untrusted_text import replace_surrogates

JUDGES = ("judge-one", "judge-two")
FIRST_VIEW_BYTES = 300_000
ODD = "".join(map(chr, (0, 7, 27, 0x202E, 0x2066, 0x200B, 0x2028, 0x2029, 0xFEFF, 0xE0041)))


@pytest.fixture(scope="module")
def run():
    return made_run(prompts=30, judges=JUDGES, checks=3)


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    return written(tmp_path_factory.mktemp("said"), run)


@pytest.fixture
def opened(browser):
    """Open a report at an address inside it; everything that it asks for must be beside it."""
    visits = []

    def go(folder: Path, inside: str = "", *, size=DESKTOP, dark=False, **options) -> Visit:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            **options,
        )
        page = context.new_page()
        visit = Visit(page, folder.as_uri())
        visit.watch()
        page.add_init_script("window.tripped = []; window.tripwire = (n) => window.tripped.push(n);")
        page.goto(f"{folder.as_uri()}/report.html{inside}")
        visits.append(visit)
        return visit

    yield go
    for visit in visits:
        visit.check()
        visit.page.context.close()


def groups_of(run, dimension=None):
    return [
        group
        for name in run.dimensions
        if dimension in (None, name)
        for group in group_verdicts(run.judged(name))
    ]


def chip(page, name):
    return page.locator(".chips label", has_text=name)


def loaded_bytes(visit):
    files = {url.partition("#")[0].removeprefix("file://") for url in visit.requests}
    return sum(Path(name).stat().st_size for name in files)


@pytest.mark.slow(but="(390, 844)")
@pytest.mark.parametrize("size", [DESKTOP, PHONE, (1920, 1080)], ids=str)
def test_a_match_is_found_and_read(size, folder, run, opened):
    visit = opened(folder, size=size)
    page = visit.page
    assert loaded_bytes(visit) < FIRST_VIEW_BYTES
    page.locator("#said").scroll_into_view_if_needed()
    flips = [group for group in groups_of(run) if group.flips()]
    expect(chip(page, "Flips").locator("b")).to_have_text(str(len(flips)))
    chip(page, "Flips").click()
    expect(page.locator(".said-list li")).to_have_count(min(40, len(flips)))
    page.locator(".said-list a").first.click()
    one = page.locator(".said-one")
    expect(one.locator(".judge")).to_have_count(2)
    group = flips[0]
    texts = {(answer.model, answer.prompt_id): answer.response for answer in run.answers}
    for words in (
        f"Question {int(group.prompt_id[1:])}?",
        texts[group.model_a, group.prompt_id],
        texts[group.model_b, group.prompt_id],
        *(row.verdict.reasoning for row in group.judged if row.verdict),
    ):
        expect(one.locator(".text", has_text=words).first).to_be_visible()
    expect(one).to_contain_text("a flip: the winner changes with the order")
    assert page.locator(".said-list").is_visible() is (size[0] > 1000)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert loaded_bytes(visit) < FIRST_VIEW_BYTES


def test_an_address_opens_the_same_match_for_a_colleague(folder, run, opened):
    page = opened(folder, "#said?show=flips&dimension=calibration").page
    page.locator(".said-list a").nth(1).click()
    expect(page.locator(".said-one h3")).to_be_visible()
    address = page.evaluate("location.hash")
    assert "show=flips" in address
    shown = page.locator(".said-one").inner_text()
    other = opened(folder, address).page
    expect(other.locator(".said-one h3")).to_be_visible()
    assert other.locator(".said-one").inner_text() == shown
    expect(other.locator(".said-list [aria-current]")).to_have_count(1)
    assert other.locator("select[name=dimension]").input_value() == "calibration"
    other.go_back()


CHIPS = {
    "All matches": lambda group: group.results != {},
    "Flips": lambda group: group.flips(),
    "Judges disagree": lambda group: group.disputed,
    "No verdict": lambda group: group.lacks(),
    "Failed checks": lambda group: group.failed,
    "All checks": lambda group: group.results == {},
}


def test_every_chip_counts_what_it_shows(folder, run, opened):
    page, groups = opened(folder, "#said").page, groups_of(run)
    for shown, fits in CHIPS.items():
        wanted = sum(map(fits, groups))
        expect(chip(page, shown).locator("b")).to_have_text(f"{wanted:,}")
        chip(page, shown).click()
        expect(page.locator(".said-count")).to_contain_text(
            f"{wanted:,} of {len(groups):,} matches and checks"
        )
        page.locator(".said-list a").first.click()
        expect(page.locator(".said-one .judge").first).to_be_visible()


def test_filters_narrow_the_list(folder, run, opened):
    page = opened(folder, "#said?show=flips").page
    count = page.locator(".said-count")
    page.select_option("select[name=judge]", "judge-two")
    flips = [group for group in groups_of(run) if group.flips("judge-two")]
    expect(count).to_contain_text(f"{len(flips)} of")
    page.select_option("select[name=dimension]", "factuality")
    flips = [group for group in flips if group.dimension == "factuality"]
    expect(count).to_contain_text(f"{len(flips)} of")
    page.select_option("select[name=category]", "b")
    flips = [group for group in flips if int(group.prompt_id[1:]) % 3 == 1]
    expect(count).to_contain_text(f"{len(flips)} of")
    page.select_option("select[name=a]", "cedar")
    flips = [group for group in flips if "cedar" in (group.model_a, group.model_b)]
    expect(count).to_contain_text(f"{len(flips)} of" if flips else "Nothing fits")
    page.get_by_role("button", name="Clear").click()
    chip(page, "All matches").click()
    page.select_option("select[name=a]", "cedar")
    page.select_option("select[name=b]", "ash")
    pair = [
        group
        for group in groups_of(run)
        if (group.model_a, group.model_b) == ("ash", "cedar") and group.results
    ]
    expect(count).to_contain_text(f"{len(pair)} of")
    page.get_by_label("Prompt", exact=True).fill("p00007")
    expect(count).to_contain_text("2 of")
    assert "find=p00007" in page.evaluate("location.hash")


@pytest.mark.slow
def test_diagnostics_and_pairs_lead_to_their_matches(run, tmp_path_factory, opened):
    single = made_run(prompts=20)
    folder = written(tmp_path_factory.mktemp("linked"), single)
    page = opened(folder).page
    page.locator("#judges table a").first.click()
    flips = [group for group in groups_of(single) if group.flips()]
    expect(page.locator(".said-count")).to_contain_text(f"{len(flips)} of")
    assert page.locator(".chips input:checked").input_value() == "flips"
    page.locator("details", has_text="Pairs").first.locator("summary").click()
    link = page.locator("details table a").first
    wanted = link.inner_text()
    link.click()
    expect(page.locator(".said-count")).to_contain_text(f"{wanted} of")
    assert page.locator("select[name=a]").input_value()


@pytest.mark.slow
def test_the_keyboard_is_enough(folder, opened):
    page = opened(folder, "#said?show=flips").page
    page.locator(".said-list a").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator(".said-one .bar")).to_contain_text("2 of")
    for _ in range(2):
        page.get_by_role("link", name="Next").focus()
        page.keyboard.press("Enter")
    expect(page.locator(".said-one .bar")).to_contain_text("4 of")
    assert page.evaluate("document.activeElement.dataset.go") == "next"
    page.locator(".chips input:checked").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".chips input:checked")).to_have_value("disputed")
    page.get_by_role("button", name="More").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".said-pages")).to_contain_text("41–")
    assert page.evaluate("document.activeElement.closest('.said-list') !== null")
    page.get_by_role("button", name="To the verdict").press("Enter")
    assert page.evaluate("document.activeElement.className") == "judge"


@pytest.mark.slow
def test_a_phone_goes_back_to_the_list(folder, opened):
    page = opened(folder, "#said?show=flips", size=PHONE).page
    page.locator(".said-list a").nth(2).click()
    expect(page.locator(".said-list")).to_be_hidden()
    page.get_by_role("link", name="All results").click()
    expect(page.locator(".said-list")).to_be_visible()
    page.go_back()
    expect(page.locator(".said-one h3")).to_be_visible()


@pytest.mark.slow(but="checks on a dark phone")
@pytest.mark.parametrize(
    ("inside", "size", "dark"),
    [("#said?show=flips", DESKTOP, False), ("#said?show=failed", PHONE, True)],
    ids=["flips on a desk", "checks on a dark phone"],
)
def test_axe_finds_nothing(inside, size, dark, folder, opened):
    visit = opened(folder, inside, size=size, dark=dark, bypass_csp=True)
    expect(visit.page.locator(".said-list a").first).to_be_visible()
    assert axe(visit.page) == []
    visit.page.locator(".said-list a").first.click()
    expect(visit.page.locator(".said-one .judge").first).to_be_visible()
    assert axe(visit.page) == []


def test_without_its_folder_the_page_says_what_is_missing(folder, tmp_path, opened):
    shutil.copy(folder / "report.html", tmp_path)
    page = opened(tmp_path, "#said").page
    expect(page.locator(".said-missing")).to_contain_text("Keep the folder report_data beside this file.")
    page.locator("details.charts summary").first.click()
    expect(page.locator(".chart").first).to_contain_text("report_data/charts.js cannot be read.")


def test_without_scripts_the_page_says_what_it_needs(folder, opened):
    page = opened(folder, java_script_enabled=False).page
    expect(page.locator(".said-missing")).to_be_visible()
    expect(page.locator("table").first).to_be_visible()


def hostile_run():
    """Every hostile text as a prompt, a response, a reasoning and a reply; some as names."""
    # Names with a lone surrogate are refused; responses may have one.
    payloads = [replace_surrogates(payload.text) for payload in PAYLOADS]
    names = ("__proto__", "<img src=x onerror=tripwire(0)></script><script>tripwire(1)</script>")
    bank = [
        replace(
            prompt, prompt_id=f"{k} {payloads[k][:60]}", text=f"{payloads[k]}{ODD}", category=payloads[k][:40]
        )
        for k, prompt in enumerate(prompts_of(len(payloads)))
    ]
    answers = [
        replace(
            answer, response=payloads[int(answer.prompt_id.split()[0])] + "\n" + "x" * (1_000_000 * (k == 0))
        )
        for k, answer in enumerate(answers_of(bank, names))
    ]

    def fate(question):
        one = judged_of(question)
        text = payloads[int(question.prompt_id.split()[0])]
        if one.reply is None:
            return one
        told = {"reasoning": text + ODD, "verdict": "A>B", "both_bad": False}
        return reparse(replace(one, reply=replace(one.reply, text=json.dumps(told) if one.verdict else text)))

    return bank, answers, names, fate


def test_hostile_text_stays_text(tmp_path_factory, monkeypatch, opened):
    bank, answers, names, fate = hostile_run()
    monkeypatch.setattr("support.judged_runs.prompts_of", lambda _: bank)
    monkeypatch.setattr("support.judged_runs.answers_of", lambda *_: answers)
    run = made_run(
        prompts=len(bank),
        models=names,
        dimensions=("d",),
        judges=("</title><b>",),
        checks=2,
        fate=fate,
        n_bootstraps=0,
    )
    folder = written(tmp_path_factory.mktemp("hostile"), run)
    page = opened(folder, "#said").page
    expect(page.locator(".said-list a")).to_have_count(40)
    elements = page.evaluate("document.querySelectorAll('*').length")
    seen = 0
    for k in range(0, len(bank), max(1, len(bank) // 20)):
        prompt = bank[k]
        key = "/".join(quote(part, safe="") for part in ("d", prompt.prompt_id, *sorted(names)))
        page.evaluate("key => { location.hash = '#said?open=' + key; }", key)
        expect(page.locator(".said-one .text").first).to_contain_text("\\u{202e}\\u{2066}")
        shown = page.locator(".said-one .text").first.evaluate("element => element.textContent")
        assert len(page.locator(".said-one .text").first.evaluate("element => [...element.children]")) == 0
        assert "\u202e" not in shown
        seen += 1
    assert seen >= 20
    assert page.evaluate("document.querySelectorAll('*').length") < elements + 200
    assert (
        page.locator(".said img, .said script, .said iframe, .said svg, .said style, .said form form").count()
        == 0
    )
    first = "/".join(quote(part, safe="") for part in ("d", bank[0].prompt_id, *sorted(names)))
    page.evaluate("key => { location.hash = '#said?open=' + key; }", first)
    expect(page.locator(".said-one")).to_contain_text("; the whole is in answers.jsonl, line 1.")
    assert page.evaluate("window.tripped") == []
    assert page.evaluate("({}).polluted") is None


@pytest.mark.slow
def test_ten_thousand_verdicts_stay_light(tmp_path_factory, opened):
    models = tuple(f"model-{k}" for k in range(5))
    run = made_run(prompts=250, models=models, n_bootstraps=0, n_perms=1, k_sweep=())
    folder = written(tmp_path_factory.mktemp("many"), run)
    visit = opened(folder, "#said?show=flips", size=(1920, 1080))
    page = visit.page
    expect(chip(page, "All matches").locator("b")).to_have_text("5,000")
    page.locator(".said-list a").first.click()
    expect(page.locator(".said-one .judge")).to_be_visible()
    assert loaded_bytes(visit) < FIRST_VIEW_BYTES
    assert page.evaluate("document.querySelectorAll('*').length") < 3_000
    spent = page.evaluate(
        """() => {
            const field = document.querySelector("select[name=a]");
            const start = performance.now();
            for (const option of field.options) {
                field.value = option.value;
                field.dispatchEvent(new Event("input", {bubbles: true}));
            }
            return (performance.now() - start) / field.options.length;
        }"""
    )
    print(f"a filter takes {spent:.1f} ms")
    assert spent < 250
