"""Artifacts: a folder of files from which a stranger can recompute every number.

`rate` lives here: files in, rated groups out and, where a folder is asked for, everything that
is needed to verify them. The folder's `battles.parquet` is the only source of its numbers.
"""

from tiltyard.runs.battle_rating import RateSettings, rate_files, rate_table

__all__ = ["RateSettings", "rate_files", "rate_table"]
