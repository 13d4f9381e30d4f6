-- name: sent_add
-- The bytes of a response are sent to its voter.
INSERT INTO sent_responses (matchup, side, characters) VALUES (%(matchup)s, %(side)s, %(characters)s)
ON CONFLICT DO NOTHING;

-- name: sent_find
-- What was sent of a matchup by its own address.
SELECT side, at, characters FROM sent_responses WHERE matchup = %(matchup)s;

-- name: sent_delete
-- No matchup is open for longer than a day and a few minutes.
DELETE FROM sent_responses WHERE at < clock_timestamp() - interval '2 days';
