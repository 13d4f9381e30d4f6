"""Judges: from a request to a raw reply, paid once: cache, ledger, budget, limits, batches."""
