"""Judging: the questions for a judge, the parsing of its replies, and the result of two orders.

This package is pure: no clock, no environment, no logging, no files, no network and no
random state of its own. It contains rubrics, matches, questions, verdicts and results; calls to
providers, their costs and the cache of replies are handled elsewhere.
"""
