"""Servers on loopback for tests: a real llama.cpp, and one that bills like a provider and can misbehave."""
