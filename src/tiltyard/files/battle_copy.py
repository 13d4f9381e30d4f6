"""Copies battles from files of any format into one native Parquet file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa

from tiltyard.files.battle_source import BattleSource, explain_invalid, open_battles
from tiltyard.files.battle_tables import style_columns
from tiltyard.files.battle_writer import write_batches
from tiltyard.files.canonical_columns import RESPONSES
from tiltyard.files.parquet_batches import battle_batches

_CHUNK_BATTLES = 65_536


def copy_battles(path: Path, sources: Sequence[BattleSource], style: Sequence[str] = ()) -> BattleSource:
    """Write every battle of ``sources`` to ``path`` and open it.

    All fields are copied, and so are the columns of the ``style`` covariates if they are
    measured in answers that are not fields of the battles.
    """
    with explain_invalid(sources):
        write_batches(path, _batches(sources, style))
    return open_battles(path)


def _batches(sources: Sequence[BattleSource], style: Sequence[str]) -> Iterator[pa.RecordBatch]:
    stored = sources[0].stored
    wanted = [column for columns in style_columns(sources, style).values() for column in columns]
    # If the answers are copied, style can be measured again in the copy.
    counted = [] if set(RESPONSES) <= set(stored) else [name for name in wanted if name not in stored]
    by_column = all(source.rows is not None for source in sources) or counted
    if by_column and all(source.stored == stored for source in sources):
        return chain.from_iterable(source.batches([*stored, *counted]) for source in sources)
    return battle_batches(chain.from_iterable(source.battles() for source in sources), _CHUNK_BATTLES)
