"""Simulated arenas with known true strengths, for forecasts and for validating methods."""
