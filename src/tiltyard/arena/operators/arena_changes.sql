-- name: takedowns_responses
-- Live responses to a prompt, all or one model's, are withdrawn, or only hidden.
UPDATE responses SET withdrawn_at = %(at)s, hidden_at = CASE WHEN %(hide)s::boolean THEN %(at)s::timestamptz END
WHERE arena = %(arena)s AND prompt = %(prompt)s AND (%(model)s::integer IS NULL OR model = %(model)s)
    AND withdrawn_at IS NULL
RETURNING response, model;

-- name: takedowns_hidden
-- Hidden responses to a prompt, all or one model's, are withdrawn for good.
UPDATE responses SET hidden_at = NULL
WHERE arena = %(arena)s AND prompt = %(prompt)s AND (%(model)s::integer IS NULL OR model = %(model)s)
    AND hidden_at IS NOT NULL
RETURNING response;

-- name: takedowns_show
-- Hidden responses to a prompt, all or one model's, are live again: the last of each model that has no other.
UPDATE responses r SET withdrawn_at = NULL, hidden_at = NULL
FROM (
    SELECT model, max(response) AS response FROM responses
    WHERE arena = %(arena)s AND prompt = %(prompt)s AND (%(model)s::integer IS NULL OR model = %(model)s)
        AND hidden_at IS NOT NULL
    GROUP BY model
) last
WHERE r.response = last.response AND NOT EXISTS (
    SELECT FROM responses o
    WHERE o.arena = %(arena)s AND o.prompt = %(prompt)s AND o.model = last.model AND o.withdrawn_at IS NULL
)
RETURNING r.response, r.model;

-- name: takedowns_prompt
-- A prompt's text goes; its hash and its name stay. No row comes back if it was gone already.
UPDATE prompts SET text = NULL, withdrawn_at = %(at)s
WHERE arena = %(arena)s AND prompt = %(prompt)s AND withdrawn_at IS NULL
RETURNING prompt;

-- name: takedowns_open
-- Open matchups of the log so far on a prompt, all or those of one model.
SELECT m.source, m.serial FROM matchups m
WHERE m.arena = %(arena)s AND m.prompt = %(prompt)s AND m.expires_at > now() AND m.position <= %(upto)s
    AND (%(model)s::integer IS NULL OR m.a = %(model)s OR m.b = %(model)s)
    AND NOT EXISTS (
        SELECT FROM endings e
        WHERE e.arena = m.arena AND e.source = m.source AND e.serial = m.serial AND e.undone IS NULL
    );

-- name: takedowns_shown
-- Which of these matchups, and of those served or reopened since a position, are open and show any of these responses.
WITH looked_at (source, serial) AS (
    SELECT * FROM unnest(%(sources)s::smallint[], %(serials)s::bigint[])
    UNION
    SELECT source, serial FROM events WHERE arena = %(arena)s AND position > %(after)s AND kind IN (0, 8, 14)
)
SELECT m.source, m.serial, m.session, m.a, m.b, m.prompt, m.ballot, m.unseen
FROM looked_at JOIN matchups m USING (source, serial)
WHERE m.arena = %(arena)s AND m.expires_at > %(now)s
    AND (m.response_a = ANY(%(responses)s) OR m.response_b = ANY(%(responses)s))
    AND NOT EXISTS (
        SELECT FROM endings e
        WHERE e.arena = m.arena AND e.source = m.source AND e.serial = m.serial AND e.undone IS NULL
    )
ORDER BY m.source, m.serial;
