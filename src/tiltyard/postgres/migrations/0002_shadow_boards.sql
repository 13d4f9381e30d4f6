-- What operators see from phase 1 of the policy on, and readers later.

-- In phase 1, the board with all that the policy computes, as phase 2 would show it.
ALTER TABLE snapshots ADD COLUMN shadow text;
-- The phase of the policy that a report is made under: readers see those of phase 4.
ALTER TABLE reports ADD COLUMN phase smallint NOT NULL DEFAULT 4;
