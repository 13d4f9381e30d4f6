"""LLM judges as voters of an arena."""
