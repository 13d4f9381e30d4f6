"""The inner loops of the rating methods; `tiltyard.foundation.compiled_kernels` decides when they are compiled."""
