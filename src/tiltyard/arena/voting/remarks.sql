-- name: remarks_keep
-- Why a voter decided so: of a matchup of its own with a vote that stands and whose names nobody can have seen.
-- The ending is locked: an undo at the same moment either finds the remark and removes it, or is found here.
INSERT INTO remarks (arena, source, serial, session, tags, comment)
SELECT m.arena, m.source, m.serial, m.session, %(tags)s, %(comment)s
FROM matchups m JOIN endings e USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.matchup = %(matchup)s AND m.source = %(source)s AND m.session = %(session)s
    AND e.kind = 1 AND e.undone IS NULL AND e.revealed_at IS NULL
    AND e.at > now() - make_interval(secs => %(within)s)
FOR SHARE OF e
ON CONFLICT (arena, source, serial)
    DO UPDATE SET tags = excluded.tags, comment = excluded.comment, made_at = now();

-- name: remarks_find
-- What was said of a matchup, by whoever asks.
SELECT r.tags, r.comment
FROM matchups m JOIN remarks r USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.matchup = %(matchup)s AND m.source = %(source)s AND m.session = %(session)s;

-- name: remarks_own_pairs
-- Pairs on which a session has final votes: how many of any kind, and how many decisive ones.
SELECT m.a, m.b, count(*), count(*) FILTER (WHERE e.outcome IN (0, 1, 4, 5))
FROM matchups m JOIN endings e USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.source = %(source)s AND m.session = %(session)s
    AND e.kind = 1 AND e.undone IS NULL AND (e.revealed_at IS NOT NULL OR e.at <= %(final)s)
GROUP BY m.a, m.b;
