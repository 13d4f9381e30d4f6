"""Runs a study on many simulated worlds, in parallel processes, keeps the results and summarises them.

A study is a function of settings and a seed. Each seed is a separate world; its result does not depend on the
process, on other runs, or on whether it was cached.
"""

from __future__ import annotations

import enum
import errno
import hashlib
import io
import json
import math
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy.special import bdtr, stdtrit

from tiltyard.errors import BadOption, TiltyardError
from tiltyard.settings.environment import ONE_THREAD, read_environment

#: The packages that a result may depend on.
DEPENDENCY_PACKAGES = (
    "tiltyard.core.battles",
    "tiltyard.core.ratings",
    "tiltyard.core.policy",
    "tiltyard.simulation",
)

_LIBRARIES = ("numpy", "scipy", "numba")

SettingsT = TypeVar("SettingsT")
ResultT = TypeVar("ResultT")
#: Called with the number of finished seeds and their total.
Progress = Callable[[int, int], None]
Take = Callable[[int, Any], None]


def lab_folder() -> Path:
    """The default folder of the cache: ``lab`` in ``TILTYARD_HOME``."""
    return read_environment().home / "lab"


class ResultCache:
    """The results of one study with one set of settings: a JSON Lines file."""

    def __init__(self, folder: Path, study: str, settings: object, made_by: Mapping[str, object]) -> None:
        about = {"study": study, "settings": to_plain(settings)}
        self.path = folder / f"{study}-{_hash(canonical_text(about))[:16]}.jsonl"
        self._about = {**about, **made_by}
        self._results = self._read()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, seed: int) -> Any:
        """The cached result of a seed as plain values, or ``None``."""
        return self._results.get(self.key(seed))

    def add(self, seed: int, result: Any) -> None:
        """Append one result in a single write; an incomplete line is ignored when reading."""
        key = self.key(seed)
        line = canonical_text({"key": key, "seed": seed, "result": result, **self._about}) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+", buffering=0) as file:
                _append(file, line.encode())
        except OSError as error:
            raise self._unusable(error) from None
        self._results[key] = result

    def key(self, seed: int) -> str:
        return _hash(canonical_text({**self._about, "seed": seed}))

    def _read(self) -> dict[str, object]:
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(error) from None
        results: dict[str, object] = {}
        for line in lines:
            try:
                row = json.loads(line)
                results[row["key"]] = row["result"]
            except (ValueError, KeyError, TypeError):
                continue
        return results

    def _unusable(self, error: OSError) -> BadOption:
        return BadOption(
            f"cannot write results to {self.path}: {error.strerror or error}; name another folder, "
            "or set TILTYARD_HOME to a writable folder"
        )


def versions(rooms: Sequence[str] = DEPENDENCY_PACKAGES) -> dict[str, str | None]:
    """What a result depends on besides its settings: our source code and the library versions."""
    return {"code": code_hash(tuple(rooms)), **{name: _version(name) for name in _LIBRARIES}}


@cache
def code_hash(rooms: tuple[str, ...] = DEPENDENCY_PACKAGES) -> str:
    """A hash of the source files of packages and modules."""
    digest = hashlib.sha256()
    for room in sorted(rooms):
        for name, path in _sources(room):
            digest.update(f"{name}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _sources(room: str) -> list[tuple[str, Path]]:
    """The source files of a package or module, with names that do not depend on the machine."""
    try:
        spec = find_spec(room)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise BadOption(f"no module named {room}; use the dotted names of packages or modules")
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        return [(room, origin)]
    root = origin.parent
    return [(f"{room}/{path.relative_to(root).as_posix()}", path) for path in sorted(root.rglob("*.py"))]


def canonical_text(value: Any) -> str:
    """The canonical JSON text of a plain value: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def to_plain(value: object, where: str = "") -> Any:
    """Convert a frozen dataclass to values that JSON represents exactly.

    The class name is included: two methods with the same fields are not the same settings.
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"class": type(value).__name__, **to_plain(named, where)}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: to_plain(part, f"{where}.{name}") for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(part, f"{where}[{k}]") for k, part in enumerate(value)]
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    raise BadOption(
        f"{where.lstrip('.') or 'the value'} is {value!r} ({type(value).__name__}), which JSON cannot represent; "
        "use dataclasses, str, int, finite float, bool, None, tuples, and dicts by name"
    )


def from_plain(kind: Any, value: Any) -> Any:
    """The reverse of `to_plain`, by the types of the fields."""
    origin, parts = get_origin(kind), get_args(kind)
    if value is None:
        return None
    if origin in (UnionType, Union):
        return from_plain(next(part for part in parts if part is not NoneType), value)
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(
            **{name: from_plain(hints[name], part) for name, part in value.items() if name != "class"}
        )
    if origin in (tuple, list, dict):
        return _restored_parts(origin, parts, value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind[value]
    return float(value) if kind is float else value


def _restored_parts(origin: type, parts: tuple[Any, ...], value: Any) -> Any:
    if origin is dict:
        return {name: from_plain(parts[1], part) for name, part in value.items()}
    if origin is list or parts[-1] is Ellipsis:
        return origin(from_plain(parts[0], part) for part in value)
    return tuple(from_plain(part, item) for part, item in zip(parts, value, strict=True))


def _append(file: io.FileIO, line: bytes) -> None:
    """Append a line in one write; an incomplete last line is terminated first."""
    size = file.seek(0, io.SEEK_END)
    if size:
        file.seek(size - 1)
        line = line if file.read(1) == b"\n" else b"\n" + line
    if file.write(line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Study(Generic[SettingsT, ResultT]):
    """A function of settings and a seed, and its result type: a frozen dataclass that JSON can represent.

    The function must be defined at the top level of a module, so that other processes can import it.
    ``version`` grows when the meaning of a result changes; changes in the packages and modules of
    ``depends`` invalidate cached results.
    """

    name: str
    version: int
    run: Callable[[SettingsT, int], ResultT]
    result: type[ResultT]
    depends: tuple[str, ...] = DEPENDENCY_PACKAGES


def run_study(
    study: Study[SettingsT, ResultT],
    settings: SettingsT,
    seeds: Sequence[int],
    *,
    folder: Path | None = None,
    processes: int = 0,
    on_progress: Progress = lambda _done, _total: None,
) -> list[ResultT]:
    """The results of a study, in the order of the seeds.

    With a ``folder``, results are cached there as they finish, and only missing seeds are run: an
    interrupted run is resumed, and a run with more seeds is extended. ``processes`` 0 runs in this
    process, one seed after another.
    """
    if processes < 0:
        raise BadOption(f"processes is {processes}; expected 0 (this process) or more")
    made_by = {"version": study.version, **versions(study.depends)}
    kept = None if folder is None else ResultCache(folder, study.name, settings, made_by)
    cached = {seed: None if kept is None else kept.get(seed) for seed in seeds}
    answers = {seed: answer for seed, answer in cached.items() if answer is not None}
    missing = [seed for seed in cached if seed not in answers]

    def take(seed: int, answer: Any) -> None:
        if kept is not None:
            kept.add(seed, answer)
        answers[seed] = answer
        on_progress(len(answers), len(cached))

    on_progress(len(answers), len(cached))
    if missing and processes:
        _run_in_workers(study, settings, missing, processes, take)
    else:
        _run_here(study, settings, missing, take)
    return [from_plain(study.result, answers[seed]) for seed in seeds]


def _answer(study: Study[SettingsT, ResultT], settings: SettingsT, seed: int) -> Any:
    return to_plain(study.run(settings, seed))


def _checked_answer(study: Study[SettingsT, ResultT], settings: SettingsT, seed: int, code: str) -> Any:
    """The result from a worker, whose source code must match the cache key."""
    if code_hash(study.depends) != code:
        raise TiltyardError("the source code changed during the run; start again")
    return _answer(study, settings, seed)


def _run_here(
    study: Study[SettingsT, ResultT], settings: SettingsT, seeds: Sequence[int], take: Take
) -> None:
    for seed in seeds:
        try:
            answer = _answer(study, settings, seed)
        except Exception as error:
            raise _failed(study.name, seed, error) from error
        take(seed, answer)


def _run_in_workers(
    study: Study[SettingsT, ResultT], settings: SettingsT, seeds: Sequence[int], processes: int, take: Take
) -> None:
    """Submit at most one seed per worker, so that a crash can be attributed to few seeds."""
    others = set(active_children())
    left, code = list(reversed(seeds)), code_hash(study.depends)
    running: dict[Future[Any], int] = {}
    with _one_thread_each():
        pool = ProcessPoolExecutor(
            min(processes, len(seeds)), mp_context=get_context("spawn"), initializer=_begin_worker
        )
        try:
            while left or running:
                while left and len(running) < processes:
                    running[pool.submit(_checked_answer, study, settings, left[-1], code)] = left[-1]
                    left.pop()
                wait(running, return_when=FIRST_COMPLETED)
                # Store finished results before raising errors.
                ready = {future: future.exception() for future in running if future.done()}
                for future in [future for future, error in ready.items() if error is None]:
                    take(running.pop(future), future.result())
                for future, error in ready.items():
                    if isinstance(error, BrokenProcessPool):
                        raise error
                    if error is not None:
                        raise _failed(study.name, running.pop(future), error) from error
        except BrokenProcessPool as error:
            raise _died(study.name, sorted(running.values())) from error
        finally:
            if left or running:
                _end(set(active_children()) - others, running, take)
            pool.shutdown(cancel_futures=True)


def _end(workers: Iterable[BaseProcess], running: dict[Future[Any], int], take: Take) -> None:
    """After an error or Ctrl-C: stop the workers and store finished results without waiting."""
    for worker in workers:
        worker.terminate()
    for future, seed in running.items():
        if future.done() and future.exception() is None:
            take(seed, future.result())


def _failed(name: str, seed: int, error: BaseException) -> TiltyardError:
    return TiltyardError(
        f"study {name} failed at seed {seed}: {type(error).__name__}: {error}; run that seed alone, with "
        "processes 0, to see where"
    )


def _died(name: str, seeds: Sequence[int]) -> TiltyardError:
    suspects = ("seed " if len(seeds) == 1 else "one of the seeds ") + ", ".join(map(str, seeds))
    return TiltyardError(
        f"study {name}: a worker died at {suspects}; it was killed, ran out of memory, or could not start "
        "(a script must start its work under `if __name__ == '__main__'`). Finished results are kept: run again "
        "to resume, with fewer processes if memory is short"
    )


def _begin_worker() -> None:
    """Ignore Ctrl-C, which the parent handles; exit when the parent exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Give each worker one thread: the cores are already used, and sums keep their order.

    NumPy's libraries read these variables when they are loaded, before any of our code runs.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@dataclass(frozen=True, slots=True)
class MeanFigure:
    """A mean over seeds and its standard error."""

    mean: float
    error: float
    n: int

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Student's interval for the mean."""
        half = float(stdtrit(self.n - 1, (1.0 + level) / 2.0)) * self.error if self.n > 1 else math.inf
        return self.mean - half, self.mean + half


@dataclass(frozen=True, slots=True)
class BoundedFigure:
    """A median over seeds with its interval and the coverage of that, ``level``."""

    value: float
    low: float
    high: float
    n: int
    level: float


def summarise(values: Sequence[float]) -> MeanFigure:
    """Mean and standard error; a single value has an infinite one."""
    n = _count(values)
    error = float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return MeanFigure(float(np.mean(values)), error, n)


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> MeanFigure:
    """The mean difference by seed: effects of the shared worlds cancel out."""
    if len(ours) != len(theirs):
        raise BadOption(f"{len(ours)} values cannot be paired with {len(theirs)}; run both on the same seeds")
    return summarise([one - other for one, other in zip(ours, theirs, strict=True)])


def median_figure(values: Sequence[float], level: float = 0.95) -> BoundedFigure:
    """The median with an interval from order statistics, which holds for any distribution.

    From the k-th smallest to the k-th largest value it covers 1 − 2·P(B < k), B binomial (n, ½); k is
    the largest for which that reaches ``level`` (David and Nagaraja, Order Statistics, 3rd ed., 7.1).
    Below 6 values even the extremes cover less than 95 %, and the level says so. Use
    infinity for events that never happened.
    """
    n = _count(values)
    ordered = sorted(float(value) for value in values)
    k = next((k for k in range((n + 1) // 2, 1, -1) if 2.0 * bdtr(k - 1, n, 0.5) <= 1.0 - level), 1)
    middle = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2.0
    covers = 1.0 - 2.0 * float(bdtr(k - 1, n, 0.5))
    return BoundedFigure(middle, ordered[k - 1], ordered[n - k], n, max(covers, 0.0))


def _count(values: Sequence[float]) -> int:
    if len(values) == 0:
        raise BadOption("no values to summarise; run at least one seed")
    return len(values)
