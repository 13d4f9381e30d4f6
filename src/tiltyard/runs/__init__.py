"""Run folders: files from which anyone can recompute every number.

This package implements `rate`: it reads files, returns rated groups and, if a folder is given, writes
everything needed to verify them. The folder's `battles.parquet` is the only source of its numbers.
"""
