"""What every package may stand on: files, caches, retries, telemetry, kernels and the spelling of options."""
