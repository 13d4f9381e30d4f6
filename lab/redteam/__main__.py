"""``python -m lab.redteam``: attack an arena in every way, with each of its defences switched on in turn.

In memory, every attack runs under every defence, with the functions that an arena runs. With ``--served`` the attacks
named there also run through the HTTP API of a real server. `just red-team` runs all of it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from lab.redteam.attack_run import AttackSize, run_attack
from lab.redteam.attacks import ATTACKS, attack_named
from lab.redteam.demo_servers import fill_arena, open_server
from lab.redteam.outcomes import AttackOutcome
from lab.redteam.red_team_page import CellName, red_team_page
from lab.redteam.served_run import run_served


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attacks that are not kept yet; write or print the page."""
    options = _parser().parse_args(arguments)
    with _folder(options.kept) as folder:
        wanted = [
            CellName("memory", attack, share, accounts, seed)
            for attack in options.attack
            for share in options.share
            for accounts in options.accounts
            for seed in range(1, options.seeds + 1)
        ]
        missing = [name for name in wanted if not (folder / name.file).exists()]
        sizes = (options.history, options.meanwhile)
        if options.processes > 1:
            with ProcessPoolExecutor(options.processes) as pool:
                for name, found in pool.map(_run_cell, missing, [sizes] * len(missing)):
                    _keep(folder, name, found)
        else:
            for name in missing:
                _keep(folder, *_run_cell(name, sizes))
        served = _run_served(options, folder) if options.served is not None else []
        cells = {name: _kept(folder, name) for name in (*wanted, *served)}
    text = red_team_page(cells, sizes, _command(options))
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text, encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.redteam", description=__doc__)
    names = [plan.name for plan in ATTACKS]
    parser.add_argument("--attack", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--share", type=float, nargs="+", default=[0.1, 0.03], help="Attackers' share of votes."
    )
    parser.add_argument("--accounts", type=int, nargs="+", default=[100, 10])
    parser.add_argument("--history", type=int, default=2000, help="Honest votes before the attack.")
    parser.add_argument("--meanwhile", type=int, default=1000, help="Honest votes among the attack's.")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--served", nargs="*", choices=names, help="Attacks that also run through the API.")
    parser.add_argument("--kept", type=Path, help="A folder for finished attacks, which are not run again.")
    parser.add_argument("--out", type=Path, help="Write the page here instead of printing it.")
    return parser


def _command(options: argparse.Namespace) -> str:
    """What makes these figures again."""
    chosen = {
        "attack": [] if len(options.attack) == len(ATTACKS) else options.attack,
        "share": options.share,
        "accounts": options.accounts,
        "history": [options.history],
        "meanwhile": [options.meanwhile],
        "seeds": [options.seeds],
    }
    said = [f"--{name} {shlex.join(map(str, values))}" for name, values in chosen.items() if values]
    if options.served is not None:
        said.append(f"--served {shlex.join(options.served)}".strip())
    return f"python -m lab.redteam {' '.join(said)}"


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """Where finished attacks are kept; for this run only if nobody says where."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="tiltyard-red-team-") as folder:
        yield Path(folder)


def _run_cell(name: CellName, sizes: tuple[int, int]) -> tuple[CellName, dict[str, AttackOutcome]]:
    size = AttackSize(*sizes, name.share, name.accounts)
    return name, run_attack(attack_named(name.attack), size, name.seed)


def _run_served(options: argparse.Namespace, folder: Path) -> list[CellName]:
    """Attack copies of one served arena, with the first share and number of accounts."""
    names = [
        CellName("served", attack, options.share[0], options.accounts[0], 1)
        for attack in options.served or options.attack
    ]
    missing = [name for name in names if not (folder / name.file).exists()]
    if missing:
        with tempfile.TemporaryDirectory(prefix="tiltyard-red-team-") as place:
            Path(place).chmod(0o755)
            home = Path(place) / "home"
            with open_server(home) as filled:
                fill_arena(filled, home, options.history, seed=7)
                for name in missing:
                    size = AttackSize(options.history, options.meanwhile, name.share, name.accounts)
                    found = run_served(filled, home, attack_named(name.attack), size, name.seed)
                    _keep(folder, name, {"all": found})
    return names


def _keep(folder: Path, name: CellName, found: Mapping[str, AttackOutcome]) -> None:
    written = json.dumps({defence: asdict(outcome) for defence, outcome in found.items()})
    (folder / name.file).write_text(written + "\n", encoding="utf-8")


def _kept(folder: Path, name: CellName) -> dict[str, AttackOutcome]:
    saved = json.loads((folder / name.file).read_text(encoding="utf-8"))
    return {defence: AttackOutcome(**outcome) for defence, outcome in saved.items()}


if __name__ == "__main__":
    raise SystemExit(main())
