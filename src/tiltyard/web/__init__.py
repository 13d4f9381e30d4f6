"""The web process: the JSON API and the pages of arenas, on top of `tiltyard.arena`.

The only package that knows HTTP. It parses requests, calls the arena and renders responses.
"""
