"""Run folders: files from which anyone can recompute every number.

This package implements `rate`: it reads files, returns rated groups and, if a folder is given, writes
everything needed to verify them. The folder's `battles.parquet` is the only source of its numbers.
"""

from tiltyard.runs.battle_rating import RateSettings, rate_files, rate_table

__all__ = ["RateSettings", "rate_files", "rate_table"]
