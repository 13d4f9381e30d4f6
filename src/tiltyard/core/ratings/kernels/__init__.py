"""The inner loops of the rating methods; `tiltyard.compiled_kernels` decides when they are compiled."""
