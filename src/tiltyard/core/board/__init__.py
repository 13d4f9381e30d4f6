"""The board: ranked rows, ready to be shown.

This room is pure: rows are values made from ratings and ranks, and every page, terminal table
and file shows the same rows.
"""

from tiltyard.core.board.board_rows import Board, RatedGroup, Row, make_board
from tiltyard.core.board.win_rates import PairRow, pair_rows

__all__ = ["Board", "PairRow", "RatedGroup", "Row", "make_board", "pair_rows"]
