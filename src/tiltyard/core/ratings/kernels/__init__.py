"""The inner loops of the rating methods; `tiltyard.compiled_kernels` says when they are compiled."""
