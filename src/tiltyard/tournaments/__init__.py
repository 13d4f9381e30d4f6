"""Tournaments: from cached responses to published ratings."""
