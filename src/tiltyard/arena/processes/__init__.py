"""The processes that serve one database: which of them are alive, how they divide arenas, and what limits they share."""
