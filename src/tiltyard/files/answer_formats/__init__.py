"""Readers of the answers that other tools write: one module for each tool.

A reader takes an open file and a tally, and yields answers. What is not an answer (a sample that
failed, a response without text) is counted in the tally by its reason, and never becomes an empty
answer or a score of zero. Prompts are named by the tool's own ids, so that two files of the same
task are paired.
"""
