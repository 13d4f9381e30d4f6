"""Durable jobs that survive a crash of their process. The only package that imports DBOS."""

from tiltyard.jobs.engine import Engine, WorkerHooks, open_engine
from tiltyard.jobs.shard import Hook, Shard, Work

__all__ = ["Engine", "Hook", "Shard", "Work", "WorkerHooks", "open_engine"]
