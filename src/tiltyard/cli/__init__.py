"""The command line. Commands import heavy modules only when they run, so that `--help` stays fast."""

from tiltyard.cli.app import app, main

__all__ = ["app", "main"]
