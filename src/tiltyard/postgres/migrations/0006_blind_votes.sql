-- A vote is blind if its voter had not been told the name behind either response. Votes of versions before this
-- one do not say; they count as blind, as they did.

ALTER TABLE events ADD COLUMN blind boolean;
ALTER TABLE endings ADD COLUMN blind boolean;
-- Boards say how many votes were not blind: few, among many.
CREATE INDEX endings_not_blind ON endings (arena, source, position) WHERE NOT blind;

-- Responses whose model's name a voter was told. It follows from the endings whose names were shown, and is kept
-- so that a vote need not look at all of its voter's votes before it.
CREATE TABLE told_responses (
    arena integer NOT NULL REFERENCES arenas,
    session bigint NOT NULL,
    response bigint NOT NULL,
    PRIMARY KEY (arena, session, response)
);
INSERT INTO told_responses (arena, session, response)
SELECT DISTINCT m.arena, m.session, unnest(ARRAY[m.response_a, m.response_b])
FROM matchups m JOIN endings e USING (arena, source, serial)
WHERE e.kind = 1 AND e.undone IS NULL AND e.revealed_at IS NOT NULL;

CREATE OR REPLACE VIEW battles AS
SELECT e.arena, e.source, e.serial, e.position, e.at, e.outcome, m.a, m.b, m.prompt, m.session,
       m.nominal, m.lane, m.propensity, m.served_at,
       EXISTS (
           SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
           WHERE v.arena = e.arena AND v.source = e.source AND v.serial = e.serial AND x.restored IS NULL
       ) AS excluded,
       e.both_bad, coalesce(e.blind, true) AS blind
FROM endings e JOIN matchups m USING (arena, source, serial)
WHERE e.kind = 1 AND e.undone IS NULL;
