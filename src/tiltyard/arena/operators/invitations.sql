-- name: invitations_lock
-- One change of an arena's invitations at a time.
SELECT FROM arenas WHERE arena = %(arena)s FOR NO KEY UPDATE;

-- name: invitations_add
-- A new link, or a new passcode.
INSERT INTO invitations (arena, batch, name, code_sha256, passcode_argon2, uses_allowed, expires_at)
VALUES (%(arena)s, %(batch)s, %(name)s, %(code)s, %(passcode)s, %(uses)s, now() + %(life)s::interval)
RETURNING invitation, batch, name, passcode_argon2 IS NOT NULL, uses_allowed, uses, created_at, expires_at, revoked_at;

-- name: invitations_renew
-- Another code for a link that nobody has used; no row if somebody has, or it was revoked.
UPDATE invitations SET code_sha256 = %(code)s, expires_at = greatest(expires_at, now() + %(life)s::interval)
WHERE arena = %(arena)s AND invitation = %(invitation)s AND uses = 0 AND revoked_at IS NULL AND code_sha256 IS NOT NULL
RETURNING invitation, batch, name, passcode_argon2 IS NOT NULL, uses_allowed, uses, created_at, expires_at, revoked_at;

-- name: invitations_list
-- All invitations of an arena, without their hashes; of a named one the voter and how many votes stand.
SELECT i.invitation, batch, i.name, passcode_argon2 IS NOT NULL, uses_allowed, uses, i.created_at, expires_at, i.revoked_at,
    (SELECT coalesce(max(n.voters), 0) FROM (
        SELECT count(s.network) AS voters FROM sessions s WHERE s.invitation = i.invitation GROUP BY s.network
    ) n),
    v.session,
    (SELECT count(*) FROM matchups m JOIN endings d USING (arena, source, serial)
     WHERE m.arena = %(arena)s AND m.session = v.session AND d.kind = 1 AND d.undone IS NULL)
FROM invitations i LEFT JOIN LATERAL (
    SELECT session FROM sessions WHERE invitation = i.invitation AND i.name IS NOT NULL LIMIT 1
) v ON true
WHERE i.arena = %(arena)s ORDER BY i.invitation;

-- name: invitations_sessions
-- The sessions of those who came in by an invitation of this arena.
SELECT s.session FROM sessions s JOIN invitations i USING (invitation)
WHERE i.arena = %(arena)s AND i.invitation = %(invitation)s ORDER BY s.session;

-- name: invitations_sole
-- Revoke the invitation by which a voter came in, if it was for this voter alone.
UPDATE invitations i SET revoked_at = coalesce(i.revoked_at, now()) FROM sessions s
WHERE s.session = %(session)s AND i.invitation = s.invitation AND i.uses_allowed = 1;

-- name: invitations_live
-- The invitations of an arena that were not revoked: whether each is a passcode, the second of its creation, and for how
-- many it is.
SELECT invitation, passcode_argon2 IS NOT NULL, floor(extract(epoch FROM created_at))::bigint,
    CASE WHEN uses_allowed = 1 THEN 'one' ELSE 'many' END
FROM invitations WHERE arena = %(arena)s AND revoked_at IS NULL;

-- name: invitations_revoke
-- Revoke an invitation; no row if there is none with this number or it was revoked before. The name of somebody who
-- never came is deleted.
UPDATE invitations i SET revoked_at = now(), name = CASE WHEN uses > 0 THEN name END
WHERE arena = %(arena)s AND invitation = %(invitation)s AND revoked_at IS NULL
RETURNING invitation, batch, name, passcode_argon2 IS NOT NULL, uses_allowed, uses, created_at, expires_at, revoked_at;

-- name: invitations_revoke_passcode
-- Revoke the passcode of an arena, if it has one.
UPDATE invitations SET revoked_at = now()
WHERE arena = %(arena)s AND passcode_argon2 IS NOT NULL AND revoked_at IS NULL RETURNING invitation;

-- name: invitations_find
-- The link with this code: its arena, and whether it can be used.
SELECT i.arena, i.invitation, i.revoked_at IS NOT NULL, i.expires_at <= now(), i.uses >= i.uses_allowed, i.uses_allowed
FROM invitations i WHERE i.code_sha256 = %(code)s;

-- name: invitations_passcode
-- The passcode of an arena.
SELECT invitation, passcode_argon2 FROM invitations
WHERE arena = %(arena)s AND passcode_argon2 IS NOT NULL AND revoked_at IS NULL;

-- name: invitations_use
-- Use an invitation once; no row if it cannot be used any more. Returns the second, by the database's clock.
-- The same visit again, within a minute, is not another use: a button may be pressed twice. The session gets its row.
WITH used AS (
UPDATE invitations SET last_used_at = now(), last_visit_sha256 = %(visit)s,
    uses = uses + CASE WHEN last_visit_sha256 = %(visit)s AND last_used_at > now() - interval '1 minute' THEN 0 ELSE 1 END
WHERE invitation = %(invitation)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
    AND (uses_allowed IS NULL OR uses < uses_allowed
         OR (last_visit_sha256 = %(visit)s AND last_used_at > now() - interval '1 minute'))
RETURNING invitation, floor(extract(epoch FROM now()))::bigint AS issued
), kept AS (
    INSERT INTO sessions (session, source, invitation, network, language) OVERRIDING SYSTEM VALUE
    SELECT %(session)s, 0, invitation, %(network)s, %(language)s FROM used ON CONFLICT (session) DO NOTHING
)
SELECT issued FROM used;
