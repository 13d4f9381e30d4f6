"""Settings: configuration files, prices and the environment, read once and frozen."""
