"""Logs that a test rewrites by hand, as a superuser can."""


def allow_rewriting(connection):
    """Let this connection change and delete rows of logs: triggers that keep them append-only do not fire."""
    connection.execute("SET session_replication_role = replica")
