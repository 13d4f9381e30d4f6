"""The report: the same board as a terminal table, as charts, and as one page in a file."""
