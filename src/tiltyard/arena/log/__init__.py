"""The event log of an arena: append, read, export."""
