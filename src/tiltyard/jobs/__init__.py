"""Durable jobs that survive a crash of their process. The only package that imports DBOS."""
