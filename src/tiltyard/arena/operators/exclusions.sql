-- name: exclusions_draft
-- Votes are going to be excluded; by which event is said before this transaction ends.
INSERT INTO exclusions (arena, reason, excluded) VALUES (%(arena)s, %(reason)s, 0) RETURNING exclusion;

-- name: exclusions_choose
-- Select the votes of the log so far that match all criteria and were not undone.
WITH hit AS (
    INSERT INTO excluded_votes (exclusion, arena, source, serial)
    SELECT %(exclusion)s, d.arena, d.source, d.serial
    FROM endings d
    JOIN matchups m USING (arena, source, serial)
    WHERE d.arena = %(arena)s AND d.kind = 1 AND d.undone IS NULL AND d.position <= %(upto)s
        AND (%(source)s::smallint IS NULL OR d.source = %(source)s)
        AND (%(sessions)s::bigint[] IS NULL OR m.session = ANY(%(sessions)s))
        AND (%(matchups)s::uuid[] IS NULL OR m.matchup = ANY(%(matchups)s))
        AND (%(since)s::timestamptz IS NULL OR d.at >= %(since)s)
        AND (%(until)s::timestamptz IS NULL OR d.at < %(until)s)
    RETURNING 1
)
SELECT count(*) FROM hit;

-- name: exclusions_choose_since
-- The same for a range of the log, by its events, so that a short range is fast even in a long log.
WITH hit AS (
    INSERT INTO excluded_votes (exclusion, arena, source, serial)
    SELECT %(exclusion)s, e.arena, e.source, e.serial
    FROM events e
    JOIN matchups m USING (arena, source, serial)
    JOIN endings d USING (arena, source, serial)
    WHERE e.arena = %(arena)s AND e.position > %(after)s AND e.position <= %(upto)s AND e.kind = 1
        AND d.position = e.position AND d.undone IS NULL
        AND (%(source)s::smallint IS NULL OR e.source = %(source)s)
        AND (%(sessions)s::bigint[] IS NULL OR m.session = ANY(%(sessions)s))
        AND (%(matchups)s::uuid[] IS NULL OR m.matchup = ANY(%(matchups)s))
        AND (%(since)s::timestamptz IS NULL OR e.at >= %(since)s)
        AND (%(until)s::timestamptz IS NULL OR e.at < %(until)s)
    RETURNING 1
)
SELECT count(*) FROM hit;

-- name: exclusions_drop_undone
-- Selected votes that were undone in a range of the log.
WITH hit AS (
    DELETE FROM excluded_votes v USING events e
    WHERE e.arena = %(arena)s AND e.position > %(after)s AND e.position <= %(upto)s AND e.kind = 8
        AND v.exclusion = %(exclusion)s AND v.source = e.source AND v.serial = e.serial
    RETURNING 1
)
SELECT count(*) FROM hit;

-- name: exclusions_settle
-- They leave by the event at this position.
UPDATE exclusions SET excluded = %(position)s, made_at = %(at)s WHERE exclusion = %(exclusion)s;

-- name: exclusions_list
-- Every exclusion of an arena, newest first.
SELECT x.exclusion, x.reason, x.excluded, x.restored, x.made_at,
       (SELECT count(*) FROM excluded_votes v WHERE v.exclusion = x.exclusion)
FROM exclusions x WHERE x.arena = %(arena)s ORDER BY x.exclusion DESC;

-- name: exclusions_whose
-- For every exclusion of an arena: the sessions with most of its votes, their number, who made it, and who restored it.
SELECT x.exclusion, w.sessions, w.among, made.actor, back.actor, back.at, x.final,
       x.erased_from IS NOT NULL
FROM exclusions x
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(s.session ORDER BY s.place) FILTER (WHERE s.place <= %(most)s), '{}') AS sessions,
           count(*) AS among
    FROM (
        SELECT m.session, row_number() OVER (ORDER BY count(*) DESC, m.session) AS place
        FROM excluded_votes v JOIN matchups m USING (arena, source, serial)
        WHERE v.exclusion = x.exclusion AND m.arena = %(arena)s GROUP BY m.session
    ) s
) w
LEFT JOIN audit made ON made.arena = x.arena AND made.action = 'exclude votes'
    AND made.detail ->> 'exclusion' = x.exclusion::text
LEFT JOIN audit back ON back.arena = x.arena AND back.action = 'restore votes'
    AND back.detail ->> 'exclusion' = x.exclusion::text
WHERE x.arena = %(arena)s;

-- name: exclusions_find
-- One exclusion of an arena.
SELECT restored, final, erased_from IS NOT NULL FROM exclusions WHERE arena = %(arena)s AND exclusion = %(exclusion)s;

-- name: exclusions_restore
-- Its votes count again, from the event at this position on.
UPDATE exclusions SET restored = %(position)s WHERE arena = %(arena)s AND exclusion = %(exclusion)s;

-- name: exclusions_sessions
-- Whose matchups an arena ever served.
SELECT DISTINCT session FROM matchups WHERE arena = %(arena)s;

-- name: exclusions_tally
-- How often each pair ended how in rated votes of some sessions or matchups up to a position; with or without excluded ones.
SELECT m.a, m.b, m.prompt, vote_kind(d.outcome, d.both_bad) AS vote, count(*), coalesce(m.free_prompt, 0) AS written
FROM matchups m
JOIN endings d USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.source = %(source)s
    AND (%(sessions)s::bigint[] IS NULL OR m.session = ANY(%(sessions)s))
    AND (%(matchups)s::uuid[] IS NULL OR m.matchup = ANY(%(matchups)s))
    AND d.kind = 1 AND d.undone IS NULL AND d.position <= %(upto)s
    AND vote_unrated(d.blind, d.mark, d.admitted, %(upto)s) IS NULL
    AND (%(excluded)s OR NOT EXISTS (
        SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
        WHERE v.arena = d.arena AND v.source = d.source AND v.serial = d.serial
            AND x.excluded <= %(upto)s AND (x.restored IS NULL OR x.restored > %(upto)s)
    ))
GROUP BY m.a, m.b, m.prompt, written, vote
ORDER BY m.a, m.b, m.prompt, written, vote;
