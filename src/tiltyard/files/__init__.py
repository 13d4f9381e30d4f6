"""Battle file formats: reading and writing.

Only this package knows file formats. It takes a path and returns battles, or batches of canonical
columns. Bad data is never repaired silently: an unknown outcome, a broken line or a missing column
raises an `InputError` that says what is wrong, where, and what to do. Records that are not
battles (such as an unreadable reply of a judge) are skipped and counted.
"""

from tiltyard.files.battle_source import BattleSource, open_battles, read_battles
from tiltyard.files.battle_writer import write_batches, write_battles

__all__ = ["BattleSource", "open_battles", "read_battles", "write_batches", "write_battles"]
