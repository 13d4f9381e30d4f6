"""Calls to LLM judges: reply cache, ledger of costs, budget, rate limits and batches."""
