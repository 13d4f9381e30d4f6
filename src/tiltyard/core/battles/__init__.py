"""Battles: the record, its outcomes, and the table that counts them.

This package is pure: no clock, no environment, no logging, no files and no random state of its own.
It does not know file formats: readers pass batches of columns (`BattleBatch`), and the table
encodes names as integers. No other package does that.
"""

from tiltyard.core.battles.batch import BattleBatch, NameColumn, to_batches
from tiltyard.core.battles.battle import Battle
from tiltyard.core.battles.counts import Counts
from tiltyard.core.battles.outcome import KIND_COUNT, Kind, Label, Outcome
from tiltyard.core.battles.table import CodedBattles, GroupTableBuilder, Table, TableBuilder

__all__ = [
    "KIND_COUNT",
    "Battle",
    "BattleBatch",
    "CodedBattles",
    "Counts",
    "GroupTableBuilder",
    "Kind",
    "Label",
    "NameColumn",
    "Outcome",
    "Table",
    "TableBuilder",
    "to_batches",
]
