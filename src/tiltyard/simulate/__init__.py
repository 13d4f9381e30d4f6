"""The lab: simulated worlds with known truth, in which methods are proved before they are trusted."""
