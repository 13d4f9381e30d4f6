"""Durable: work that outlives its process. The only room that imports DBOS."""

from tiltyard.jobs.engine import Engine, WorkerHooks, open_engine
from tiltyard.jobs.shard import Hook, Shard, Work

__all__ = ["Engine", "Hook", "Shard", "Work", "WorkerHooks", "open_engine"]
