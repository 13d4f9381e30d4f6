"""The inner loops of the rating methods; `tiltyard.compiling` says when they are compiled."""
