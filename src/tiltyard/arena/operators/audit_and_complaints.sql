-- name: oversight_audit
-- Changes of an arena, newest first, a page of them.
SELECT entry, at, actor, action, detail FROM audit
WHERE arena = %(arena)s AND entry < %(before)s ORDER BY entry DESC LIMIT %(limit)s;

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
