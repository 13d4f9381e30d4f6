-- name: reports_arenas
-- Every arena with its settings, its age and up to where its votes are final.
SELECT a.arena, a.name, a.settings, a.created_at, coalesce(r.horizon, 0)
FROM arenas a LEFT JOIN raters r USING (arena) ORDER BY a.arena;

-- name: reports_given_up
-- Serials, in a range, of one source's matchups for which a rule of matchmaking had to be given up.
SELECT serial FROM matchups
WHERE arena = %(arena)s AND source = %(source)s AND given_up <> 0 AND serial >= %(first)s AND serial < %(stop)s;

-- name: reports_known
-- Whether a span was reported already.
SELECT 1 FROM reports WHERE arena = %(arena)s AND since = %(since)s AND until = %(until)s;

-- name: reports_add
-- A report, once for each span: of two that were made at once the first stays.
INSERT INTO reports (arena, since, until, position, phase, sha256, document)
VALUES (%(arena)s, %(since)s, %(until)s, %(position)s, %(phase)s, %(sha256)s, %(document)s)
ON CONFLICT (arena, since, until) DO NOTHING;

-- name: reports_list
-- An arena's reports from a phase on, the newest first.
SELECT since, until, position, sha256, made_at FROM reports WHERE arena = %(arena)s AND phase >= %(first_phase)s
ORDER BY until DESC, since DESC;

-- name: reports_read
-- One report by its hash.
SELECT document FROM reports WHERE arena = %(arena)s AND sha256 = %(sha256)s AND phase >= %(first_phase)s LIMIT 1;

-- name: reports_next_at
-- When the first event after a position happened.
SELECT at FROM events WHERE arena = %(arena)s AND position > %(position)s ORDER BY position LIMIT 1;

-- name: reports_policy
-- The policy in force at a moment.
SELECT detail FROM events WHERE arena = %(arena)s AND kind = 12 AND at < %(until)s ORDER BY position DESC LIMIT 1;
