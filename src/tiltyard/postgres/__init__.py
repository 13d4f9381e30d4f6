"""PostgreSQL: connections, migrations, and the embedded server.

Statements are in ``*.sql`` files beside the modules that use them. Tables come from ``migrations/*.sql``;
released migrations are never changed. Errors of the driver are raised as `tiltyard.errors.StoreFault`.
"""
