"""The command line: parse, call, print. Nothing heavy is imported before it is needed."""

from tiltyard.cli.app import app, main

__all__ = ["app", "main"]
