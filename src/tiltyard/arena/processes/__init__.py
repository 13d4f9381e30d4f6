"""The processes that serve one database: which of them are alive, which decides for an arena, and links between them."""
