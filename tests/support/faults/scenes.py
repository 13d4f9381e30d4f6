"""A whole service under load: server, wire, web processes, raters, voters; and what may befall it."""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from support.faults.auditing import Audited, Place, audit_log, audit_ratings
from support.faults.children import Child, Service, service, wait_until
from support.faults.crowd import Crowd
from support.faults.cutting_proxy import CuttingProxy, cutting_proxy
from support.faults.mortal_server import MortalServer, mortal_server, new_folder
from support.live_arenas import made_arena
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect
from tiltyard.postgres.schema_migrations import migrate
from tiltyard.settings.arena_settings import ArenaSettings

#: Everything that takes its time in life, quickly.
SETTINGS = ArenaSettings(undo_seconds=1.0, expiry_seconds=5.0, snapshot_seconds=0.25, reveal="vote")


@dataclass
class Scene:
    """What runs, and what was measured."""

    server: MortalServer
    wire: CuttingProxy
    service: Service
    #: Everybody who voted here so far.
    crowds: list[Crowd] = field(default_factory=list)
    #: Seconds from each fault to the next vote that was acknowledged, by kind of fault.
    outages: dict[str, list[float]] = field(default_factory=dict)
    _asking: psycopg.Connection | None = None

    def audit(self) -> Audited:
        return audit_log(self.server.url, *self.crowds)

    def audit_ratings(self, *, every: bool = False) -> Place:
        return audit_ratings(self.server.url, every=every)

    def crowd(self, addresses: list[str] | None = None, **options: Any) -> Crowd:
        """Voters, who begin when their block is entered."""
        made = Crowd(addresses or self.service.addresses, seed=len(self.crowds), **options)
        self.crowds.append(made)
        return made

    def settle(self) -> tuple[Audited, Place]:
        """After the voters have gone: wait for the raters, and look at everything."""
        self.wait_rated()
        audited, rated = self.audit(), self.audit_ratings(every=True)
        answers: Counter[str] = sum((crowd.answers for crowd in self.crowds), Counter())
        assert answers["500"] == 0
        assert audited.votes
        assert rated.boards
        return audited, rated

    def leader(self) -> Child | None:
        """The rater that leads, if it is one of ours."""
        said = self._one("SELECT leader FROM raters WHERE arena = 1")
        pids = {str(child.process.pid): child for child in self.service.raters if child.process is not None}
        return pids.get(str(said).rpartition(" ")[2])

    def rated_all(self) -> bool:
        """Whether every vote is final, rated and on a board."""
        return bool(
            self._one(
                "SELECT (SELECT count(*) FROM battles WHERE arena = 1 AND source = 0 AND blind) = ("
                "SELECT votes FROM snapshots WHERE arena = 1 AND source = 0 "
                "ORDER BY generation DESC, position DESC LIMIT 1) "
                "AND (SELECT position FROM raters WHERE arena = 1) >= (SELECT max(position) FROM endings)"
            )
        )

    def wait_rated(self, seconds: float = 180.0) -> float:
        """Wait for the raters, after the voters have gone."""
        return wait_until(self.rated_all, seconds, "every vote on a board")

    def freeze_in_a_batch(self, web: Child, crowd: Crowd) -> float:
        """Stop a web process while it holds the arena's lock; the moment."""
        for _ in range(2000):
            web.freeze()
            moment = time.monotonic()
            holders = [self._holder() for _ in range(5)]
            if holders[0] is not None and len(set(holders)) == 1:
                time.sleep(0.2)
                if self._holder() == holders[0]:
                    return moment
            web.thaw()
            time.sleep(0.005)
        raise AssertionError(f"it never held the lock: {crowd.answers}")

    def _holder(self) -> object:
        return self._one(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 7205 AND granted"
        )

    def _one(self, query: str) -> object:
        if self._asking is None or self._asking.closed:
            self._asking = connect(self.server.url, name="scene")
        try:
            row = self._asking.execute(query).fetchone()
        except psycopg.OperationalError:
            self._asking = None
            return None
        return None if row is None else row[0]

    def hang_up(self) -> None:
        if self._asking is not None:
            self._asking.close()

    def strike(self, name: str, crowd: Crowd, rng: random.Random) -> float:
        """One fault, and the recovery from it; seconds until the next acknowledged vote."""
        began = time.monotonic()
        FAULTS[name](self, rng)
        time.sleep(rng.uniform(0.0, 0.2))
        if not self.server.running():
            self.server.start()
        self.service.tend()
        moment = crowd.next_vote(time.monotonic(), 90.0)
        self.outages.setdefault(name, []).append(moment - began)
        return moment - began


def _kill_one_web(scene: Scene, rng: random.Random) -> None:
    rng.choice(scene.service.webs).kill()


def _pause_one_web(scene: Scene, rng: random.Random) -> None:
    """For less than a lease lasts, or for longer."""
    web = rng.choice(scene.service.webs)
    web.freeze()
    time.sleep(rng.uniform(0.2, 10.0))
    web.thaw()


def _kill_both_webs(scene: Scene, _: random.Random) -> None:
    for web in scene.service.webs:
        web.kill()


def _kill_rater(scene: Scene, rng: random.Random) -> None:
    (scene.leader() or rng.choice(scene.service.raters)).kill()


def _kill_both_raters(scene: Scene, _: random.Random) -> None:
    for rater in scene.service.raters:
        rater.kill()


def _kill_all(scene: Scene, rng: random.Random) -> None:
    scene.server.kill_everything()
    _kill_both_webs(scene, rng)
    _kill_both_raters(scene, rng)


FAULTS: dict[str, Callable[[Scene, random.Random], object]] = {
    "web killed": _kill_one_web,
    "web paused": _pause_one_web,
    "server stopped immediately": lambda scene, _: scene.server.stop_immediately(),
    "leading rater killed": _kill_rater,
    "postmaster killed": lambda scene, _: scene.server.kill_postmaster(),
    "connections terminated": lambda scene, _: scene.server.cut_connections(),
    "wire cut": lambda scene, _: scene.wire.cut(),
    "both webs killed": _kill_both_webs,
    "server's processes killed": lambda scene, _: scene.server.kill_everything(),
    "both raters killed": _kill_both_raters,
    "everything killed": _kill_all,
}


@contextmanager
def scene(
    server: MortalServer | None = None,
    *,
    settings: ArenaSettings = SETTINGS,
    raters: Sequence[str] = ("rater", "quick rater"),
) -> Iterator[Scene]:
    """An arena of four models and six prompts, served and rated, with a wire to its database."""
    with ExitStack() as stack:
        home = new_folder()
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        server = server or stack.enter_context(mortal_server())
        migrate(server.url)
        made_arena(server.url, settings=settings, policy=Policy(evaluated_every=50))
        wire = stack.enter_context(cutting_proxy(server.port))
        running = stack.enter_context(service(wire.url(server.url), home, raters=raters))
        made = Scene(server, wire, running)
        try:
            yield made
        finally:
            made.hang_up()


def tally(outages: dict[str, list[float]]) -> str:
    """Times by fault, as a table for people."""
    lines = [f"{'fault':30} {'n':>4} {'median':>8} {'longest':>8}"]
    for name, found in sorted(outages.items()):
        ordered = sorted(found)
        middle = ordered[len(ordered) // 2]
        lines.append(f"{name:30} {len(found):4d} {middle:7.2f}s {ordered[-1]:7.2f}s")
    return "\n".join(lines)
