-- name: admissions_arenas
-- Arenas of a bucket in which votes wait, but for those whose crowd changed for a reason that nobody has found out yet.
SELECT a.arena, a.settings FROM arenas a
WHERE a.bucket = %(bucket)s AND EXISTS (
    SELECT FROM endings e WHERE e.arena = a.arena AND e.mark = 3 AND e.admitted IS NULL AND e.undone IS NULL
) AND NOT EXISTS (SELECT FROM crowd_changes c WHERE c.arena = a.arena AND c.explained IS NULL)
ORDER BY a.arena;

-- name: admissions_due
-- Votes up to a position that wait and need not any longer, because their voter is known, has waited long enough or has
-- passed the checks: so many votes over so long a time, and the gate if there was one.
WITH waiting AS (
    SELECT d.source, d.serial, d.position, d.at, m.session, m.a, m.b, m.prompt,
           vote_kind(d.outcome, d.both_bad) AS vote, coalesce(m.free_prompt, 0) AS free_prompt
    FROM endings d JOIN matchups m USING (arena, source, serial)
    WHERE d.arena = %(arena)s AND d.mark = 3 AND d.admitted IS NULL AND d.undone IS NULL AND d.blind IS NOT FALSE
        AND d.position <= %(horizon)s
), voters AS (
    SELECT session, min(at) AS since, max(at) AS until, count(*) AS votes FROM waiting GROUP BY session
)
SELECT w.source, w.serial, w.session, w.a, w.b, w.prompt, w.vote, w.free_prompt
FROM waiting w JOIN voters v USING (session)
WHERE v.since <= %(now)s::timestamptz - %(hours)s * interval '1 hour'
    OR (v.votes >= %(votes)s AND v.until - v.since >= %(minutes)s * interval '1 minute' AND NOT EXISTS (
        SELECT FROM sessions s WHERE s.session = v.session AND s.gate <> 1
    ))
    OR EXISTS (
        SELECT FROM matchups n JOIN endings k USING (arena, source, serial)
        WHERE n.arena = %(arena)s AND n.session = v.session AND n.source = 0 AND k.kind = 1 AND k.undone IS NULL
            AND k.blind IS NOT FALSE AND (k.mark IS NULL OR k.admitted IS NOT NULL)
    )
ORDER BY w.position LIMIT %(limit)s;
