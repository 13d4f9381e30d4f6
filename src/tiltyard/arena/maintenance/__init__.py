"""Backup, restore, upgrade and diagnosis of an installation."""
