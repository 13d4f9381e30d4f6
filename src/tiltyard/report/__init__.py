"""Reports: a board as a terminal table, as charts, and as a self-contained HTML page."""
