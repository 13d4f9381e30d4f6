"""The web process: the JSON API of the live arenas, over the house of `tiltyard.arena`.

The only room that knows HTTP. It parses, asks a desk, and prints; what may be done is decided below.
"""
