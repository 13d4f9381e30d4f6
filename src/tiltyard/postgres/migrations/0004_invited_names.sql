-- Invitations know whom they are for.

-- The person's name; only operators and the person see it. It is deleted with the voter, and is in no log and no export.
ALTER TABLE invitations ADD COLUMN name text;
