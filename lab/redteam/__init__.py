"""An open red-team benchmark: attackers as programs against an arena, with each of its defences switched on in turn."""
