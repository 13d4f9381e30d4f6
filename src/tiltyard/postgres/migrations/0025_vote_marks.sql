-- Votes that are stored and not rated say why: 1 a response was not sent to the voter, 2 the vote came too early, 3 the
-- voter is new and the vote waits. Null: nothing speaks against the vote. One more kind of events: 17 a vote that waited
-- is admitted to the board.
ALTER TABLE events ADD COLUMN mark smallint;
ALTER TABLE endings ADD COLUMN mark smallint;
-- Of a vote that waited: the position of the event that admitted it.
ALTER TABLE endings ADD COLUMN admitted bigint;
-- Boards say how many votes are not rated and how many wait: few, among many.
CREATE INDEX endings_unlooked ON endings (arena, source, position) WHERE mark < 3;
CREATE INDEX endings_waiting ON endings (arena, source, position) WHERE mark = 3 AND admitted IS NULL;
CREATE INDEX endings_admitted ON endings (arena, source, admitted) WHERE admitted IS NOT NULL;

-- Why a vote is not on the board of a position; null if it is.
CREATE FUNCTION vote_unrated(blind boolean, mark smallint, admitted bigint, upto bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN blind IS FALSE THEN 'not-blind' WHEN mark = 1 THEN 'unseen' WHEN mark = 2 THEN 'early'
    WHEN mark = 3 AND (admitted IS NULL OR admitted > upto) THEN 'waiting' END $$;

CREATE OR REPLACE VIEW battles AS
SELECT e.arena, e.source, e.serial, e.position, e.at, e.outcome, m.a, m.b, m.prompt, m.session,
       m.nominal, m.lane, m.propensity, m.served_at,
       EXISTS (
           SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
           WHERE v.arena = e.arena AND v.source = e.source AND v.serial = e.serial AND x.restored IS NULL
       ) AS excluded,
       e.both_bad, coalesce(e.blind, true) AS blind,
       vote_unrated(e.blind, e.mark, e.admitted, 9223372036854775807) AS unrated
FROM arenas JOIN endings e USING (arena, bucket) JOIN matchups m USING (arena, bucket, source, serial)
WHERE e.kind = 1 AND e.undone IS NULL;
