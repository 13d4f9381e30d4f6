"""The validation suite: bars of the ranking policy, studies and marks. Run by developers; not part of the wheel."""
