-- name: crowd_unexplained_at
-- Changes of the crowd that are not explained, or were not up to a position.
SELECT position, model, vote_group FROM crowd_changes
WHERE arena = %(arena)s AND (explained IS NULL OR explained > %(position)s)
ORDER BY position;

-- name: crowd_add
-- A change was found, unless another process rates the arena by now.
INSERT INTO crowd_changes (arena, position, found_at, model, vote_group, detail, exclusion)
SELECT arena, %(position)s::bigint, %(at)s::timestamptz, %(model)s::integer, %(group)s::smallint, %(detail)s::jsonb,
    %(exclusion)s::bigint
FROM raters WHERE arena = %(arena)s AND term = %(term)s FOR SHARE
RETURNING position;

-- name: crowd_list
-- All changes of an arena, newest first.
SELECT c.position, c.found_at, c.model, m.name, c.vote_group, c.detail, c.explained, c.reason
FROM crowd_changes c JOIN models m ON m.arena = c.arena AND m.model = c.model
WHERE c.arena = %(arena)s ORDER BY c.position DESC;

-- name: crowd_explain
-- A change is explained by the event at a position.
UPDATE crowd_changes SET explained = %(explained)s, reason = %(reason)s
WHERE arena = %(arena)s AND position = %(position)s AND explained IS NULL RETURNING model, exclusion;
