"""Validity: what may be claimed of a board, rule by rule.

This room is pure. Each rule answers with its value, its bar, whether it holds, and what is
still missing in votes.
"""
