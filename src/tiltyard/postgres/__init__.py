"""The store: what an arena keeps in PostgreSQL, and the server under it.

The only room with SQL. Statements live in ``sql/*.sql``, one file for each module that uses them; tables
come from ``migrations/*.sql``, which are only ever added to. Whatever the driver raises leaves this room
as `tiltyard.errors.StoreFault`.
"""
