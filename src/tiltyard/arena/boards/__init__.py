"""Boards: published snapshots, and what is computed from them on demand."""
