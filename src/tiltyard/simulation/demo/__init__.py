"""Demo data: a sample file of battles, and an invented arena with answers of every kind.

Everything is made when it is asked for, the same each time; nothing is downloaded.
"""
