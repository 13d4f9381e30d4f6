"""Formats: the battle files people hold, read and written.

This room alone knows file formats. A path goes in; battles, or batches of canonical columns,
come out. Bad data is never made good: an unknown outcome, a broken line or a missing column
raises one `InputError` that says what was wrong, where, and what to do. What a format holds
that is no battle (a judge's reply that could not be read) is left out and counted.
"""

from tiltyard.files.battle_source import BattleSource, open_battles, read_battles
from tiltyard.files.battle_writer import write_batches, write_battles

__all__ = ["BattleSource", "open_battles", "read_battles", "write_batches", "write_battles"]
