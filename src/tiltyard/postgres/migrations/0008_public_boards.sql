-- What everybody may read: lists of arenas, and boards as files.

-- What a list of arenas shows of the board; boards made before have none.
ALTER TABLE snapshots ADD COLUMN summary jsonb;
-- The planner must know how many arenas everybody may read.
CREATE STATISTICS arenas_readers ON (coalesce(settings ->> 'visibility', 'open')), (coalesce(settings ->> 'entry', 'open')),
    (coalesce(settings ->> 'stage', 'open')) FROM arenas;
-- Processes that write boards as files have leases, too.
ALTER TABLE processes DROP CONSTRAINT processes_role_check;
ALTER TABLE processes ADD CONSTRAINT processes_role_check CHECK (role IN ('web', 'rater', 'boards'));
