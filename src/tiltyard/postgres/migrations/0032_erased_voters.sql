-- Voters who delete what is held about them: from this position on the log was rewritten, and is folded again.
ALTER TABLE exclusions ADD COLUMN erased_from bigint;
