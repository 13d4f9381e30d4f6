"""Tables from opened files: whole columns validated, names and clusters as integers; and copies as one native file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiltyard.core.battles import BattleBatch, GroupTableBuilder, Kind, NameColumn, Table, TableBuilder
from tiltyard.core.battles.batch import TAGS
from tiltyard.core.battles.battle import MAX_WEIGHT, TIE_PREF_TOLERANCE
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys, Levels, hash_buffer, hash_texts
from tiltyard.core.battles.outcome import kind_of, parse_label, parse_outcome
from tiltyard.core.battles.repeats import RepeatFinder, first_of_same
from tiltyard.errors import BadBattle, BadOption, UnreadableFile
from tiltyard.files.battle_source import BattleSource, explain_invalid, open_battles, require_column
from tiltyard.files.battle_writer import battle_batches, write_batches
from tiltyard.files.canonical_columns import RESPONSES
from tiltyard.foundation.arrays import Bools, Floats
from tiltyard.foundation.option_names import option_name, quoted

#: Called with the number of battles read since the last call, and with 0 when all are read.
Progress = Callable[[int], None]

#: Styles by name, and the traits each controls.
STYLES = {"markdown": ("headers", "lists", "bold")}

#: The largest log, in battles, that is kept in memory; larger Parquet files are read again.
_IN_MEMORY_ROWS = 20_000_000
_NOWHERE = "(none)"
#: The most groups of one column that are rated.
_MAX_GROUPS_COUNT = 300
#: Joins the names of groups that overlap, as readers of categories write them.
_SEPARATOR = "+"
_PLAIN = np.array([kind.plain for kind in Kind], dtype=np.uint8)
_WITH_FLAG = np.array([kind.with_flag for kind in Kind], dtype=np.uint8)
_CHUNK_BATTLES = 65_536
#: Columns with the text of the prompt, of which this much is compared; of more prompts than these, nothing is.
_PROMPT_TEXTS = ("prompt", "instruction", "question")
_TEXT_CHARACTERS = 2000
_MOST_PROMPTS = 50_000
#: The level of the battles of one day.
_DAY = "day"
#: Lengths of time by which battles are counted: numpy's unit, and how many of them.
_STEPS = {_DAY: ("D", 1), "week": ("D", 7), "month": ("M", 1), "quarter": ("M", 3), "year": ("Y", 1)}
#: A Monday, in days since 1970; and a step that no time has.
_MONDAY_DAYS, _NO_STEP_COUNT = 4, -(10**9)


def count_table(
    sources: Sequence[BattleSource],
    *,
    clusters: bool = True,
    style: Sequence[str] = (),
    levels: Sequence[str] = (),
    log: bool = True,
    progress: Progress | None = None,
) -> Table:
    """Build one table of all battles in the given files, streaming.

    ``clusters=False`` skips prompts and voters; ``levels`` are columns by which prompts may depend on each other.
    ``log=False`` keeps only counts, so that memory does not grow with the number of battles.
    """
    reader = _Reader(sources, clusters, style_columns(sources, style), levels)
    rows = [source.rows for source in sources]
    large = all(count is not None for count in rows) and sum(filter(None, rows)) > _IN_MEMORY_ROWS
    builder = TableBuilder(keep_log=log and not large, covariates=reader.covariates)
    with explain_invalid(sources):
        for batch, _ in reader.batches(progress):
            builder.add(batch)
    reread = (lambda: (batch for batch, _ in reader.batches(None))) if log and large else None
    return builder.table(reread)


def count_groups(
    sources: Sequence[BattleSource],
    by: Sequence[str],
    *,
    overlapping: bool = False,
    style: Sequence[str] = (),
    levels: Sequence[str] = (),
    progress: Progress | None = None,
    each: Callable[[BattleBatch], None] | None = None,
) -> dict[str, dict[str, Table]]:
    """One table per group of each of these columns, in one pass; battles without a group are under ``(none)``.

    ``overlapping``: a battle counts in every group that its value joins by ``+``. ``each`` is called
    with every batch that is read.
    """
    for name in by:
        require_column(sources, name, option_name("by", name))
    reader = _Reader(sources, True, style_columns(sources, style), levels, tuple(by))
    separator = _SEPARATOR if overlapping else None
    grouped = {name: GroupTableBuilder(covariates=reader.covariates, separator=separator) for name in by}
    with explain_invalid(sources):
        for batch, columns in reader.batches(progress):
            if each is not None:
                each(batch)
            for (name, builder), groups in zip(grouped.items(), columns, strict=True):
                builder.add(batch, groups)
                _refuse_many(name, builder.names)
    return {name: builder.tables() for name, builder in grouped.items()}


def count_steps(
    sources: Sequence[BattleSource], step: str, *, style: Sequence[str] = (), levels: Sequence[str] = ()
) -> dict[str, Table]:
    """One table for each step of time with battles, by its first day; battles without a time are under ``""``."""
    if step not in _STEPS:
        raise BadOption(f"step is {step!r}; expected one of {', '.join(_STEPS)}")
    require_column(sources, "time", "over_time")
    unit, length = _STEPS[step]
    first = _MONDAY_DAYS if step == "week" else 0
    reader = _Reader(sources, True, style_columns(sources, style), levels)
    builder = GroupTableBuilder(covariates=reader.covariates)
    with explain_invalid(sources):
        for batch, _ in reader.batches(None):
            moments = np.zeros(len(batch), np.uint64) if batch.time is None else batch.time
            steps = (
                moments.view("datetime64[us]").astype(f"datetime64[{unit}]").astype(int) - first
            ) // length
            starts, codes = np.unique(np.where(moments > 0, steps, _NO_STEP_COUNT), return_inverse=True)
            days = (starts * length + first).astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(str)
            names = np.where(starts == _NO_STEP_COUNT, "", days).tolist()
            builder.add(batch, NameColumn(codes.astype(np.int32), names))
            if len(builder.names) > _MAX_GROUPS_COUNT:
                raise BadOption(
                    f"the battles have more than {_MAX_GROUPS_COUNT} {step}s; choose a longer step"
                )
    return builder.tables()


def _refuse_many(by: str, names: Sequence[str]) -> None:
    if len(names) <= _MAX_GROUPS_COUNT:
        return
    # The + of a time, as in 09:00+00:00, joins nothing.
    joined = len({part for name in names for part in name.split(_SEPARATOR)}) < len(names)
    overlapping = f", or let values joined by + overlap with {option_name('overlapping')}" if joined else ""
    raise BadOption(
        f"{option_name('by', by)}: the column has more than {_MAX_GROUPS_COUNT} values; choose battles with "
        f"{option_name('where')}{overlapping}, or group by a column with fewer values"
    )


def models_by_group(sources: Sequence[BattleSource], column: str) -> dict[str, frozenset[str]]:
    """The models of the battles, for each value of a column."""
    models: dict[str, set[str]] = {}
    for source in sources:
        for batch in source.batches(["model_a", "model_b", column]):
            pairs = pa.Table.from_batches([batch])
            for row in pairs.group_by(pairs.column_names).aggregate([]).to_pylist():
                models.setdefault(row.get(column) or _NOWHERE, set()).update((row["model_a"], row["model_b"]))
    return {name: frozenset(names) for name, names in models.items()}


def voters_of(sources: Sequence[BattleSource], keys: Keys) -> list[str]:
    """The names of the voters with these keys, sorted."""
    names: set[str] = set()
    for source in sources:
        for batch in source.batches(["voter"]) if "voter" in source.columns else ():
            named = [name for name in batch.column("voter").unique().to_pylist() if name is not None]
            names.update(np.array(named, dtype=object)[np.isin(hash_texts(named), keys)].tolist())
    return sorted(names)


def level_column(source: BattleSource, level: str) -> str | None:
    """The column of a level. The day of a battle is that of its time, unless a column is called so."""
    return source.column_name(level) or (source.column_name("time") if level == _DAY else None)


def style_columns(sources: Sequence[BattleSource], style: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The name of each covariate, and the one or two columns it is computed from.

    A trait with columns ``x_a`` and ``x_b`` becomes (x_a − x_b) / (|x_a| + |x_b|); any other
    numeric column is used as it is; ``position`` is the advantage of side A.
    """
    traits = [trait for name in style for trait in STYLES.get(name, (name,))]
    found: dict[str, tuple[str, ...]] = {}
    for trait in traits:
        pair = (f"{trait}_a", f"{trait}_b")
        if trait == "position":
            found[trait] = ()
        elif all(set(pair) <= set(source.columns) for source in sources):
            found[trait] = pair
        elif all(trait in source.columns for source in sources):
            found[trait] = (trait,)
        else:
            raise BadOption(
                f"{option_name('style', trait)}: the battles have neither {pair[0]} and {pair[1]}, nor a column {trait}, "
                "nor responses to measure it in"
            )
    return found


@dataclass(frozen=True)
class _Reader:
    sources: Sequence[BattleSource]
    clusters: bool
    style: Mapping[str, tuple[str, ...]]
    levels: Sequence[str]
    groups: tuple[str, ...] = ()

    @property
    def covariates(self) -> tuple[str, ...]:
        return tuple(self.style)

    def batches(self, progress: Progress | None) -> Iterator[tuple[BattleBatch, list[NameColumn]]]:
        wanted = ["model_a", "model_b", "winner", "label", "both_bad", "pref", "weight"]
        wanted += TAGS
        wanted += ["question_id", "voter"] if self.clusters else []
        wanted += [column for columns in self.style.values() for column in columns]
        # The texts of prompts are read first, so that what is left out is counted in the last reading alone.
        known, same = self._same_prompts
        for source in self.sources:
            row, keyed = 0, _Keyed()
            named = {name: source.column_name(name) for name in self.groups}
            # Nobody asked for times either: they only tell whether two equal rows are one battle.
            timed = self.clusters and "time" in source.columns and _are_readable(source, ["time"])
            wanted_here = [*wanted, *(["time"] if timed else [])]
            levels = {level: name for level in self.levels if (name := level_column(source, level))}
            if levels and len(self.levels) > 1 and not _are_readable(source, [*levels.values()]):
                # Nobody asked for these: one that holds something else, such as lists, is left alone.
                levels = {level: name for level, name in levels.items() if _are_readable(source, [name])}
            for batch in source.batches([*wanted_here, *levels.values(), *filter(None, named.values())]):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                where = _Place(source.path, row)
                made = self._batch(columns, batch.num_rows, where, keyed)
                made = replace(made, levels=_levels(columns, levels, keyed))
                if len(known) and made.prompt is not None:
                    at = np.minimum(np.searchsorted(known, made.prompt), len(known) - 1)
                    joined = np.where(known[at] == made.prompt, same[at], made.prompt)
                    made = replace(made, prompt=joined, named_prompt=made.prompt)
                yield (
                    made,
                    [_groups(by, columns.get(name or ""), batch.num_rows) for by, name in named.items()],
                )
                row += batch.num_rows
                if progress is not None:
                    progress(batch.num_rows)
        if progress is not None:
            progress(0)

    @cached_property
    def _same_prompts(self) -> tuple[Keys, Keys]:
        """The keys of prompts whose texts nearly repeat another's, and the key of the first of each.

        Only where levels are asked for: whoever chooses prompts wants them as they are named.
        """
        texts: dict[int, str] = {}
        for source in self.sources if self.clusters and self.levels else ():
            column = next((name for name in _PROMPT_TEXTS if name in source.stored), "")
            wanted, keyed = ["question_id", column], _Keyed()
            for batch in source.batches(wanted) if {*wanted} <= {*source.stored} else ():
                keys = keyed.keys(batch.column("question_id"))
                known, rows = np.unique([] if keys is None else keys, return_index=True)
                for key, row in zip(known.tolist(), rows.tolist(), strict=True):
                    if key not in texts and str(text := batch.column(column)[row].as_py() or "").strip():
                        texts[key] = str(text)[:_TEXT_CHARACTERS]
                if len(texts) > _MOST_PROMPTS:
                    return known[:0], known[:0]
        texts.pop(int(MISSING_KEY), None)
        keys = np.array(sorted(texts), dtype=np.uint64)
        same = keys[first_of_same([texts[key] for key in keys.tolist()])]
        return keys[same != keys], same[same != keys]

    def _batch(self, columns: Mapping[str, pa.Array], n: int, where: _Place, keyed: _Keyed) -> BattleBatch:
        kind = _flagged(_kinds(columns["winner"], columns.get("label"), where), columns.get("both_bad"))
        covariates = [_covariate(trait, [columns[c] for c in cs], n) for trait, cs in self.style.items()]
        return BattleBatch(
            model_a=_names(columns["model_a"], "model_a", where),
            model_b=_names(columns["model_b"], "model_b", where),
            kind=kind,
            prompt=keyed.keys(columns.get("question_id")),
            voter=keyed.keys(columns.get("voter")),
            weight=_weights(columns.get("weight"), where),
            pref=_prefs(columns.get("pref"), kind, where),
            covariates=np.stack(covariates, axis=1) if covariates else None,
            time=_times(columns.get("time")),
            tags={tag: _group_names(columns[tag], "") for tag in TAGS if tag in columns},
        )


def _times(column: pa.Array | None) -> Keys | None:
    if column is None or not pa.types.is_timestamp(column.type) or column.null_count == len(column):
        return None
    return _numbers(column.cast(pa.int64()), 0).view(np.uint64)


def _are_readable(source: BattleSource, columns: Sequence[str]) -> bool:
    try:
        next(source.batches(columns, 1), None)
    except (BadBattle, UnreadableFile):
        return False
    return True


def _levels(columns: Mapping[str, pa.Array], levels: Mapping[str, str], keyed: _Keyed) -> Levels:
    found: dict[str, Keys] = {}
    for level, name in levels.items():
        column = columns[name]
        if level == _DAY and pa.types.is_timestamp(column.type):
            column = column.cast(pa.date32())
        try:
            keys = keyed.keys(column)
        except pa.ArrowNotImplementedError:
            kind = f"the column has type {column.type}; choose one of text or numbers"
            raise BadOption(f"{option_name('cluster', level)}: {kind}") from None
        if keys is not None:
            found[level] = keys
    return found


@dataclass(frozen=True)
class _Place:
    """The position of a batch in its file, for error messages."""

    path: str
    first: int

    def row(self, index: int) -> str:
        return f"{self.path}, row {self.first + index + 1}"


def _encoded(column: pa.Array) -> tuple[npt.NDArray[np.int32], pa.Array, Bools | None]:
    """Codes, dictionary, and the null mask of a column."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    missing = _flags(column.is_null()) if column.null_count else None
    return _numbers(column.indices, 0), column.dictionary, missing


def _numbers(column: pa.Array, absent: float) -> npt.NDArray[Any]:
    """A column of numbers; Arrow's own ``to_numpy`` and ``fill_null`` load pandas where it is installed."""
    if not column.null_count:
        return np.from_dlpack(column)
    stored = pa.Array.from_buffers(
        column.type, len(column), [None, column.buffers()[1]], offset=column.offset
    )
    return np.where(_flags(column.is_null()), absent, np.from_dlpack(stored))


def _flags(column: pa.Array) -> Bools:
    return _numbers(column.cast(pa.uint8()), 0).view(np.bool_)


def _names(column: pa.Array, field: str, where: _Place) -> NameColumn:
    codes, dictionary, missing = _encoded(column)
    values = dictionary.to_pylist()
    bad = [k for k, value in enumerate(values) if value is None or not value.strip()]
    wrong = np.isin(codes, bad) if bad else np.zeros(len(codes), dtype=bool)
    if missing is not None:
        wrong |= missing
    if wrong.any():
        row = int(np.argmax(wrong))
        value = column[row].as_py()
        raise BadBattle(f"{field} is {quoted(value)}; expected the name of a model", where=where.row(row))
    names = NameColumn(codes, values)
    # A dictionary may contain names that no row uses: these are not models.
    return names if np.bincount(codes, minlength=len(values)).all() else names.take(np.arange(len(codes)))


def _kinds(winner: pa.Array, label: pa.Array | None, where: _Place) -> npt.NDArray[np.uint8]:
    codes, dictionary, missing = _encoded(winner)
    outcomes = [*dictionary.to_pylist(), None]
    if missing is not None:
        codes = np.where(missing, len(outcomes) - 1, codes)
    if label is None:
        lookup = _kind_lookup(outcomes, [None], codes, np.zeros(1, np.int64), where)
        return lookup[:, 0][codes]
    labels, label_dictionary, unlabelled = _encoded(label)
    names = [*label_dictionary.to_pylist(), None]
    if unlabelled is not None:
        labels = np.where(unlabelled, len(names) - 1, labels)
    return _kind_lookup(outcomes, names, codes, labels, where)[codes, labels]


def _flagged(kind: npt.NDArray[np.uint8], both_bad: pa.Array | None) -> npt.NDArray[np.uint8]:
    """The kinds, with the flag set where the column is true."""
    if both_bad is None or not both_bad.true_count:
        return kind
    return np.where(_flags(both_bad), _WITH_FLAG[kind], kind)


def _kind_lookup(
    outcomes: list[Any],
    labels: list[Any],
    codes: npt.NDArray[Any],
    label_codes: npt.NDArray[Any],
    where: _Place,
) -> npt.NDArray[np.uint8]:
    """The kind of every combination that occurs; errors name the first row of an invalid one."""
    lookup = np.zeros((len(outcomes), len(labels)), dtype=np.uint8)
    combined = codes.astype(np.int64) * len(labels) + label_codes
    wrong: dict[int, str] = {}
    for key in np.flatnonzero(np.bincount(combined, minlength=lookup.size)):
        o, k = divmod(int(key), len(labels))
        try:
            lookup[o, k] = kind_of(parse_outcome(outcomes[o]), parse_label(labels[k]))
        except BadBattle as error:
            wrong[int(np.argmax(combined == key))] = error.problem
    if wrong:
        raise BadBattle(wrong[min(wrong)], where=where.row(min(wrong)))
    return lookup


def _weights(column: pa.Array | None, where: _Place) -> Floats | None:
    if column is None or column.null_count == len(column):
        return None
    weight = _numbers(column, 1.0)
    wrong = ~((weight >= 0.0) & (weight <= MAX_WEIGHT))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadBattle(
            f"weight is {weight[row]}; expected a number from 0 to {MAX_WEIGHT:g}", where=where.row(row)
        )
    return None if (weight == 1.0).all() else np.asarray(weight)


def _prefs(column: pa.Array | None, kind: npt.NDArray[np.uint8], where: _Place) -> Floats | None:
    """Stated preferences, each validated against its winner; NaN where none is stated."""
    if column is None or column.null_count == len(column):
        return None
    stated = _flags(column.is_valid())
    pref = _numbers(column, math.nan)
    wrong = stated & ~((pref >= 0.0) & (pref <= 1.0))
    kind = _PLAIN[kind]
    wrong |= np.isin(kind, (Kind.WIN_A, Kind.LEAN_A)) & (pref < 0.5)
    wrong |= np.isin(kind, (Kind.WIN_B, Kind.LEAN_B)) & (pref > 0.5)
    wrong |= (kind == Kind.TIE) & (np.abs(pref - 0.5) > TIE_PREF_TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        problem = (
            f"pref {pref[row]} (the probability that A is better) is out of range or contradicts the winner"
        )
        raise BadBattle(problem, where=where.row(row))
    return np.asarray(pref)


def _groups(by: str, column: pa.Array | None, n: int) -> NameColumn:
    if column is None:
        return NameColumn(np.zeros(n, dtype=np.int32), (_NOWHERE,))
    try:
        return _group_names(column, _NOWHERE)
    except pa.ArrowNotImplementedError:
        raise BadOption(
            f"{option_name('by', by)}: the column has type {column.type}; group by text, numbers, or true and false"
        ) from None


def _group_names(column: pa.Array, absent: str) -> NameColumn:
    """A column with missing or empty values, which get the name ``absent``."""
    codes, dictionary, missing = _encoded(column)
    values = [_group_name(value) or absent for value in dictionary.to_pylist()]
    if missing is not None:
        codes = np.where(missing, len(values), codes)
        values.append(absent)
    unique = list(dict.fromkeys(values))
    place = np.array([unique.index(value) for value in values] or [0])
    return NameColumn(place[codes], unique)


def _group_name(value: object) -> str:
    """A value as the name of a group; empty if it is missing. Whole numbers have no fraction, however they are stored."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "" if value != value else str(int(value)) if value.is_integer() else str(value)
    return "" if value is None else str(value)


def _covariate(trait: str, columns: list[pa.Array], n: int) -> Floats:
    if not columns:
        return np.ones(n)
    try:
        values = [_numbers(c.cast(pa.float64()), math.nan) for c in columns]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise BadOption(f"{option_name('style', trait)}: the column is not numeric") from None
    if len(values) == 1:
        return np.asarray(values[0], dtype=np.float64)
    a, b = values
    total = np.abs(a) + np.abs(b)
    return np.asarray((a - b) / np.where(total == 0.0, 1.0, total))


class _Keyed:
    """Hashed keys of text columns. A dictionary repeated in the next batch is hashed only once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], tuple[pa.Array, Keys]] = {}

    def keys(self, column: pa.Array | None) -> Keys | None:
        if column is None or column.null_count == len(column):
            return None
        codes, dictionary, missing = _encoded(column)
        data = dictionary.buffers()[-1]
        mark = (0 if data is None else data.address, dictionary.offset, len(dictionary))
        if mark not in self._known:
            if len(self._known) > 8:
                self._known.clear()
            # The dictionary is kept alive, so that another cannot reuse its address.
            values = dictionary
            values = values.cast(pa.large_string())
            _, offsets, data = values.buffers()
            places = np.frombuffer(offsets, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
            letters = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
            self._known[mark] = (dictionary, hash_buffer(letters, places))
        keys = self._known[mark][1][codes]
        if missing is not None:
            keys[missing] = MISSING_KEY
        return keys


def without_duplicates(sources: Sequence[BattleSource]) -> list[BattleSource]:
    """The sources without battles that repeat an earlier one of them, which are counted; all are read once for that."""
    finder, lengths = RepeatFinder(), []
    with explain_invalid(sources):
        for source in sources:
            n = 0
            for batch, _ in _Reader([source], True, {}, ()).batches(None):
                finder.add(batch)
                n += len(batch)
            lengths.append(n)
    parts = np.split(finder.copies(), np.cumsum(lengths)[:-1])
    return [replace(source, copies=part) for source, part in zip(sources, parts, strict=True)]


def copy_battles(
    path: Path, sources: Sequence[BattleSource], style: Sequence[str] = (), *, both_bad: str | None = None
) -> BattleSource:
    """Write every battle of ``sources`` to ``path`` and open it.

    All fields are copied, and so are the columns of the ``style`` covariates if they are
    measured in answers that are not fields of the battles. ``both_bad`` is the spelling of that outcome.
    """
    with explain_invalid(sources):
        write_batches(path, _copied_batches(sources, style), both_bad=both_bad)
    return open_battles(path)


def _copied_batches(sources: Sequence[BattleSource], style: Sequence[str]) -> Iterator[pa.RecordBatch]:
    stored = sources[0].stored
    wanted = [column for columns in style_columns(sources, style).values() for column in columns]
    # If the answers are copied, style can be measured again in the copy.
    counted = [] if set(RESPONSES) <= set(stored) else [name for name in wanted if name not in stored]
    by_column = all(source.rows is not None for source in sources) or counted
    if by_column and all(source.stored == stored for source in sources):
        return chain.from_iterable(source.batches([*stored, *counted]) for source in sources)
    return battle_batches(chain.from_iterable(source.battles() for source in sources), _CHUNK_BATTLES)
