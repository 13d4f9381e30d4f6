-- Logs lie in buckets instead of one partition for each arena: 64 buckets that arenas share, and one of its own
-- for an arena that was moved there. The number of tables no longer grows with the number of arenas.
--
-- All rows are copied in this transaction, so processes of older versions must be stopped first: they would look
-- for partitions that are gone.

ALTER TABLE arenas
    -- 0 to 63: a shared bucket. 64 + arena: the arena's own.
    ADD COLUMN bucket integer,
    -- While the arena is being moved: the bucket to which its log is copied. Processes then do not cache ``bucket``.
    ADD COLUMN moving_to integer,
    -- After a move: the bucket in which the old copy waits to be deleted, and since when.
    ADD COLUMN moved_from integer,
    ADD COLUMN moved_at timestamptz;
UPDATE arenas SET bucket = arena % 64;
ALTER TABLE arenas
    ALTER COLUMN bucket SET NOT NULL,
    ADD CONSTRAINT arenas_bucket_check CHECK (bucket BETWEEN 0 AND 63 OR bucket = 64 + arena);

DROP VIEW battles;
ALTER TABLE events DROP CONSTRAINT events_pkey;
ALTER TABLE matchups DROP CONSTRAINT matchups_pkey;
ALTER TABLE endings DROP CONSTRAINT endings_pkey;
DROP INDEX events_of_roster, matchups_by_id, matchups_by_session, matchups_by_expiry, endings_not_blind;
ALTER TABLE events RENAME TO events_by_arena;
ALTER TABLE matchups RENAME TO matchups_by_arena;
ALTER TABLE endings RENAME TO endings_by_arena;

-- One row for each served matchup. ``serial`` counts from 0 within arena and source. Only ``ballot`` and
-- ``expires_at`` change, when a vote is undone.
--
-- In all three tables the bucket is part of the key because it is part of the partition key; it comes last, so that
-- statements on one bucket's partition find rows by the other columns.
CREATE TABLE matchups (
    arena integer NOT NULL,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    matchup uuid NOT NULL,
    position bigint NOT NULL,
    session bigint NOT NULL,
    a integer NOT NULL,
    b integer NOT NULL,
    prompt integer NOT NULL,
    response_a bigint NOT NULL,
    response_b bigint NOT NULL,
    nominal smallint NOT NULL,
    lane smallint NOT NULL,
    reason text NOT NULL,
    propensity double precision NOT NULL,
    -- 1: exposure, 2: session, 4: name told.
    given_up smallint NOT NULL,
    served_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    -- How often the matchup's vote was undone: the number of the ballot that is open, or was answered last.
    ballot integer NOT NULL DEFAULT 0,
    bucket integer NOT NULL,
    PRIMARY KEY (arena, source, serial, bucket)
) PARTITION BY LIST (bucket);
CREATE INDEX matchups_by_id ON matchups (matchup);
CREATE INDEX matchups_by_session ON matchups (arena, session);
-- Tiny, because rows come in the order of time.
CREATE INDEX matchups_by_expiry ON matchups USING brin (expires_at);

-- The log: dense positions from 1 in each arena, in the order of commits. Append-only.
CREATE TABLE events (
    arena integer NOT NULL,
    position bigint NOT NULL,
    at timestamptz NOT NULL,
    kind smallint NOT NULL CONSTRAINT events_kind_check CHECK (kind BETWEEN 0 AND 13),
    source smallint,
    serial bigint,
    session bigint,
    a integer,
    b integer,
    prompt integer,
    outcome smallint CONSTRAINT events_outcome_check CHECK (outcome BETWEEN 0 AND 6),
    nominal smallint,
    lane smallint,
    detail jsonb,
    both_bad boolean,
    blind boolean,
    bucket integer NOT NULL,
    PRIMARY KEY (arena, position, bucket)
) PARTITION BY LIST (bucket);
CREATE INDEX events_of_roster ON events (arena, kind, position) WHERE kind IN (4, 5, 12);

-- How each matchup ended: by a vote, a skip or an expiry, once. The key makes a second vote impossible.
CREATE TABLE endings (
    arena integer NOT NULL,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    position bigint NOT NULL,
    at timestamptz NOT NULL,
    kind smallint NOT NULL CONSTRAINT endings_kind_check CHECK (kind IN (1, 2, 3)),
    outcome smallint,
    revealed_at timestamptz,
    undone bigint,
    both_bad boolean,
    blind boolean,
    bucket integer NOT NULL,
    PRIMARY KEY (arena, source, serial, bucket),
    CONSTRAINT endings_check CHECK ((kind = 1) = (outcome IS NOT NULL)),
    CONSTRAINT endings_check1 CHECK (kind = 1 OR undone IS NULL)
) PARTITION BY LIST (bucket);
CREATE INDEX endings_not_blind ON endings (arena, source, position) WHERE NOT blind;

-- The partitions of every bucket that has an arena, as `arena/log/partitions.py` creates them: by ranges of ten
-- million, and the next one when a million is left.
DO $$
DECLARE
    kept record;
    name text;
    range_count bigint;
BEGIN
    FOR kept IN
        SELECT t.name, t.key, b.bucket
        FROM (VALUES ('events', 'position'), ('matchups', 'serial'), ('endings', 'serial')) AS t (name, key),
             (SELECT DISTINCT bucket FROM arenas) AS b
    LOOP
        name := kept.name || '_b' || kept.bucket;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) PARTITION BY RANGE (%I)', name, kept.name, kept.key);
        EXECUTE format('ALTER TABLE %I ALTER COLUMN bucket SET DEFAULT %s', name, kept.bucket);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES IN (%s)', kept.name, name, kept.bucket);
        EXECUTE format(
            'SELECT (coalesce(max(r.%I), 0) + 1000000) / 10000000 FROM %I r JOIN arenas USING (arena) WHERE bucket = %s',
            kept.key, kept.name || '_by_arena', kept.bucket
        ) INTO range_count;
        FOR number IN 0..range_count LOOP
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', name || '_' || number, name);
            EXECUTE format(
                'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                name, name || '_' || number, number * 10000000, (number + 1) * 10000000
            );
        END LOOP;
    END LOOP;
END
$$;

INSERT INTO matchups
    (arena, source, serial, matchup, position, session, a, b, prompt, response_a, response_b, nominal, lane, reason,
     propensity, given_up, served_at, expires_at, ballot, bucket)
SELECT arena, source, serial, matchup, position, session, a, b, prompt, response_a, response_b, nominal, lane, reason,
       propensity, given_up, served_at, expires_at, ballot, bucket
FROM matchups_by_arena JOIN arenas USING (arena);
INSERT INTO events
    (arena, position, at, kind, source, serial, session, a, b, prompt, outcome, nominal, lane, detail, both_bad, blind,
     bucket)
SELECT arena, position, at, kind, source, serial, session, a, b, prompt, outcome, nominal, lane, detail, both_bad, blind,
       bucket
FROM events_by_arena JOIN arenas USING (arena);
INSERT INTO endings
    (arena, source, serial, position, at, kind, outcome, revealed_at, undone, both_bad, blind, bucket)
SELECT arena, source, serial, position, at, kind, outcome, revealed_at, undone, both_bad, blind, bucket
FROM endings_by_arena JOIN arenas USING (arena);
DROP TABLE events_by_arena, matchups_by_arena, endings_by_arena;

-- Servers from 18 on name these constraints, and until now the old tables had the plain names.
DO $$
DECLARE
    named record;
BEGIN
    FOR named IN
        SELECT conrelid::regclass AS held_by, conname FROM pg_constraint
        WHERE conrelid IN ('events'::regclass, 'matchups'::regclass, 'endings'::regclass)
            AND contype = 'n' AND conname LIKE '%\_not\_null1'
    LOOP
        EXECUTE format(
            'ALTER TABLE %s RENAME CONSTRAINT %I TO %I', named.held_by, named.conname, rtrim(named.conname, '1')
        );
    END LOOP;
END
$$;

-- Votes that were not undone, with what was served. For reading by people: statements of the code name one bucket.
CREATE VIEW battles AS
SELECT e.arena, e.source, e.serial, e.position, e.at, e.outcome, m.a, m.b, m.prompt, m.session,
       m.nominal, m.lane, m.propensity, m.served_at,
       EXISTS (
           SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
           WHERE v.arena = e.arena AND v.source = e.source AND v.serial = e.serial AND x.restored IS NULL
       ) AS excluded,
       e.both_bad, coalesce(e.blind, true) AS blind
FROM arenas JOIN endings e USING (arena, bucket) JOIN matchups m USING (arena, bucket, source, serial)
WHERE e.kind = 1 AND e.undone IS NULL;
