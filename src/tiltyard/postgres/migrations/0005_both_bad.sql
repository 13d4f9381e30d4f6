-- A judge that calls both responses bad says so beside its vote, which is decided by its verdict all the same.

ALTER TABLE events ADD COLUMN both_bad boolean;
ALTER TABLE endings ADD COLUMN both_bad boolean;

-- The kind of a battle, as it is folded: the outcome, or with the flag one of 7 to 12.
-- Outcomes 0, 1, 2 become 7, 8, 9; 4, 5, 6 become 10, 11, 12; 3 is a person's both_bad and has no flag.
CREATE FUNCTION vote_kind(outcome smallint, both_bad boolean) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN both_bad THEN (outcome + CASE WHEN outcome < 3 THEN 7 ELSE 6 END)::smallint ELSE outcome END $$;

-- The outcome of a kind: the same the other way round.
CREATE FUNCTION vote_outcome(kind smallint) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (CASE WHEN kind >= 10 THEN kind - 6 WHEN kind >= 7 THEN kind - 7 ELSE kind END)::smallint $$;

CREATE OR REPLACE VIEW battles AS
SELECT e.arena, e.source, e.serial, e.position, e.at, e.outcome, m.a, m.b, m.prompt, m.session,
       m.nominal, m.lane, m.propensity, m.served_at,
       EXISTS (
           SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
           WHERE v.arena = e.arena AND v.source = e.source AND v.serial = e.serial AND x.restored IS NULL
       ) AS excluded,
       e.both_bad
FROM endings e JOIN matchups m USING (arena, source, serial)
WHERE e.kind = 1 AND e.undone IS NULL;
