-- name: erasure_lock
-- Keep an arena where it is until the transaction ends; no row comes back while a copy of its log exists.
SELECT FROM arenas WHERE arena = %(arena)s AND moving_to IS NULL AND moved_from IS NULL FOR UPDATE;

-- name: erasure_remarks
-- Delete the remarks of a voter, or of all.
DELETE FROM remarks WHERE arena = %(arena)s AND (%(session)s::bigint IS NULL OR session = %(session)s);

-- name: erasure_complaints
-- Delete the words of a voter's complaints, or of all. Their reason is one of a list.
UPDATE complaints SET note = NULL
WHERE arena = %(arena)s AND (%(session)s::bigint IS NULL OR session = %(session)s) AND note IS NOT NULL;

-- name: erasure_live_turns
-- Delete the prompts and the answers of a voter's live battles, or of all. What they cost stays.
UPDATE live_turns t
SET prompt = NULL, answer_a = NULL, answer_b = NULL, thinking_a = NULL, thinking_b = NULL, flags = '{}'
FROM live_battles b
WHERE t.arena = %(arena)s AND b.arena = t.arena AND b.matchup = t.matchup AND t.prompt IS NOT NULL
    AND (%(session)s::bigint IS NULL OR b.session = %(session)s);

-- name: erasure_live_payers
-- Delete what connects a voter's live battles with an invitation or a network, or those of all.
UPDATE live_battles SET payers = '{}'
WHERE arena = %(arena)s AND (%(session)s::bigint IS NULL OR session = %(session)s) AND payers <> '{}';

-- name: erasure_details
-- Delete the details of a voter's votes, skips and served matchups, or of all. No rating depends on them.
UPDATE events SET detail = NULL
WHERE arena = %(arena)s AND (%(session)s::bigint IS NULL OR session = %(session)s)
    AND kind IN (0, 1, 2, 14) AND detail IS NOT NULL;
