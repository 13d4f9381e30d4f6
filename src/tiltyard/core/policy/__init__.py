"""The ranking policy: what is counted (`state`), which pair is next (`matchmaking`), what may be claimed (`validity`)."""
