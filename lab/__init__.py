"""The validation suite: bars of the ranking policy, and studies. Run by developers; not part of the wheel."""
