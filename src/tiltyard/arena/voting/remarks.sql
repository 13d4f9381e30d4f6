-- name: remarks_keep
-- Save a voter's remark on one of their votes, if the vote was not undone and its names are not revealed.
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
-- A voter's remark on a matchup.
SELECT r.tags, r.comment
FROM matchups m JOIN remarks r USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.matchup = %(matchup)s AND m.source = %(source)s AND m.session = %(session)s;

-- name: remarks_final_votes
-- The number of a session's final votes.
SELECT count(*)
FROM matchups m JOIN endings e USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.source = %(source)s AND m.session = %(session)s
    AND e.kind = 1 AND e.undone IS NULL AND (e.revealed_at IS NOT NULL OR e.at <= %(final)s);
