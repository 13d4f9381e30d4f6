-- name: oversight_audit
-- A page of the audit log of an arena, or of the server, newest first; optionally of one action only.
SELECT entry, at, actor, action, detail FROM audit
WHERE arena IS NOT DISTINCT FROM %(arena)s AND entry < %(before)s
    AND (%(action)s::text IS NULL OR action = %(action)s)
ORDER BY entry DESC LIMIT %(limit)s;

-- name: oversight_complaints
-- A page of complaints, oldest first, with their matchups.
SELECT c.complaint, c.reason, c.note, c.made_at, c.settled_at, a.name, b.name, p.name
FROM complaints c
LEFT JOIN matchups m USING (arena, source, serial)
LEFT JOIN models a ON a.arena = m.arena AND a.model = m.a
LEFT JOIN models b ON b.arena = m.arena AND b.model = m.b
LEFT JOIN prompts p ON p.arena = m.arena AND p.prompt = m.prompt
WHERE c.arena = %(arena)s AND c.complaint > %(after)s AND (%(all)s OR c.settled_at IS NULL)
ORDER BY c.complaint LIMIT %(limit)s;

-- name: oversight_settle
-- A complaint was looked at. Returns whether it was settled before.
UPDATE complaints c SET settled_at = coalesce(c.settled_at, now()) FROM complaints before
WHERE c.arena = %(arena)s AND c.complaint = %(complaint)s AND before.complaint = c.complaint
RETURNING before.settled_at IS NOT NULL;

-- name: overviews_arenas
-- For every arena: the open complaints, and the time of its newest board.
SELECT a.name, (SELECT count(*) FROM complaints c WHERE c.arena = a.arena AND c.settled_at IS NULL), s.made_at
FROM arenas a
LEFT JOIN LATERAL (
    SELECT made_at FROM snapshots s WHERE s.arena = a.arena AND s.source = 0
    ORDER BY generation DESC, position DESC LIMIT 1
) s ON true
ORDER BY a.name;

-- name: overviews_days
-- Votes that stand, by day and source, the newest day first.
SELECT (at AT TIME ZONE %(timezone)s)::date AS day, count(*) FILTER (WHERE source = 0),
       count(*) FILTER (WHERE source = 1)
FROM endings
WHERE arena = %(arena)s AND kind = 1 AND undone IS NULL AND at > now() - %(days)s * interval '1 day'
GROUP BY day ORDER BY day DESC;

-- name: overviews_open
-- How many matchups that were shown wait for their vote.
SELECT count(*) FROM matchups m
WHERE m.arena = %(arena)s AND m.expires_at > now() AND NOT m.unseen
    AND NOT EXISTS (
        SELECT FROM endings d WHERE d.arena = m.arena AND d.source = m.source AND d.serial = m.serial
            AND d.undone IS NULL
    );

-- name: overviews_size
-- Bytes of the whole database.
SELECT pg_database_size(current_database());

-- name: overviews_actions
-- Which actions an arena's audit has.
SELECT DISTINCT action FROM audit WHERE arena IS NOT DISTINCT FROM %(arena)s ORDER BY action;

-- name: overviews_names
-- Who these sessions are, as far as it is known: the name of a judge's token, of somebody who was invited by name or
-- rates in a panel, or of somebody who signed in.
SELECT s.session, coalesce(t.name, i.name, p.name)
FROM unnest(%(sessions)s::bigint[]) AS s (session)
LEFT JOIN sessions n ON n.session = s.session
LEFT JOIN api_tokens t ON n.source = 1 AND n.name = 'token:' || t.api_token
LEFT JOIN invitations i ON i.invitation = n.invitation
LEFT JOIN people p ON p.session = s.session
WHERE coalesce(t.name, i.name, p.name) IS NOT NULL;
