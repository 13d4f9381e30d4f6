"""Rating an arena: one leading process folds the log, keeps checkpoints and publishes snapshots."""
