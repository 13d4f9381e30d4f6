"""Battles: the record, its outcomes, and the table that counts them.

This room is pure. It has no clock, no environment, no logging, no files and no random
state of its own; what it knows comes in as arguments and goes out as values. Nothing here
imports a file format: readers hand over batches of columns (`Batch`), and the table turns
names into integers. It is the only place that does.
"""

from tiltyard.core.battles.batch import Batch, Names, batches_of
from tiltyard.core.battles.battle import Battle
from tiltyard.core.battles.counts import Counts
from tiltyard.core.battles.outcome import KINDS, Kind, Label, Outcome
from tiltyard.core.battles.table import Codes, Table, TableBuilder, tables_by_group

__all__ = [
    "KINDS",
    "Batch",
    "Battle",
    "Codes",
    "Counts",
    "Kind",
    "Label",
    "Names",
    "Outcome",
    "Table",
    "TableBuilder",
    "batches_of",
    "tables_by_group",
]
