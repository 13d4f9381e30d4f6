"""Voting: from the next matchup to the vote in the log."""
