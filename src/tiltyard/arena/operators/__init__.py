"""What operators do and see: changes, exclusions, voters, the audit log, scheduled jobs."""
