-- name: people_list
-- Operators who were not removed, by name; with an arena, those with a role in it or for the installation.
SELECT o.operator, o.name, o.created_at, o.totp_since IS NOT NULL, o.issuer,
    (SELECT count(*)::integer FROM operator_sessions s
     WHERE s.operator = o.operator AND s.revoked_at IS NULL AND s.expires_at > now() AND NOT s.awaits_code),
    (SELECT max(s.last_seen_at) FROM operator_sessions s WHERE s.operator = o.operator AND NOT s.awaits_code),
    (SELECT coalesce(jsonb_agg(jsonb_build_array(a.name, r.role) ORDER BY a.name), '[]')
     FROM operator_roles r LEFT JOIN arenas a USING (arena) WHERE r.operator = o.operator)
FROM operators o
WHERE o.removed_at IS NULL AND (%(arena)s::integer IS NULL OR EXISTS (
    SELECT FROM operator_roles r
    WHERE r.operator = o.operator AND (r.arena IS NULL OR r.arena = %(arena)s::integer)))
ORDER BY o.name;

-- name: people_invite
-- A link that invites an operator; no row if there are too many that can be used.
INSERT INTO operator_links (token_sha256, expires_at, role, arena, invitee)
SELECT %(token)s, now() + %(life)s::interval, %(role)s, %(arena)s::integer, %(invitee)s
WHERE (SELECT count(*) FROM operator_links
       WHERE role IS NOT NULL AND used_at IS NULL AND revoked_at IS NULL AND expires_at > now()) < %(limit)s
RETURNING link, invitee, role, (SELECT a.name FROM arenas a WHERE a.arena = %(arena)s::integer), created_at, expires_at,
    used_at, revoked_at;

-- name: people_invitations
-- Invitations of operators that can be used; with an arena, only those to it.
SELECT l.link, l.invitee, l.role, a.name, l.created_at, l.expires_at, l.used_at, l.revoked_at
FROM operator_links l LEFT JOIN arenas a USING (arena)
WHERE l.role IS NOT NULL AND l.used_at IS NULL AND l.revoked_at IS NULL AND l.expires_at > now()
    AND (%(arena)s::integer IS NULL OR l.arena = %(arena)s::integer)
ORDER BY l.link;

-- name: people_revoke_invitation
-- Revoke an invitation of an operator; with an arena, only one to it.
UPDATE operator_links SET revoked_at = now()
WHERE link = %(link)s AND role IS NOT NULL AND used_at IS NULL AND revoked_at IS NULL
    AND (%(arena)s::integer IS NULL OR arena = %(arena)s::integer)
RETURNING revoked_at, arena;

-- name: people_password_link
-- A link by which an operator sets its password. Earlier ones are closed.
WITH closed AS (
    UPDATE operator_links SET revoked_at = now()
    WHERE operator = %(operator)s AND used_at IS NULL AND revoked_at IS NULL
)
INSERT INTO operator_links (token_sha256, expires_at, operator)
VALUES (%(token)s, now() + %(life)s::interval, %(operator)s) RETURNING link;

-- name: people_close_links
-- Close the links by which an operator sets its password.
UPDATE operator_links SET revoked_at = now()
WHERE operator = %(operator)s AND used_at IS NULL AND revoked_at IS NULL;

-- name: people_roles
-- The roles of an operator by arena; null is the installation.
SELECT arena, role FROM operator_roles WHERE operator = %(operator)s;

-- name: people_take_role
-- Take away a role in an arena, or for the installation.
DELETE FROM operator_roles WHERE operator = %(operator)s AND arena IS NOT DISTINCT FROM %(arena)s::integer;

-- name: people_take_roles
-- Take away all roles.
DELETE FROM operator_roles WHERE operator = %(operator)s;

-- name: people_revoke_tokens
-- Revoke all tokens of an operator.
UPDATE api_tokens SET revoked_at = now() WHERE operator = %(operator)s AND revoked_at IS NULL RETURNING api_token;

-- name: people_remove
-- Remove an operator. The row stays: the name is in the audit log and is not given again.
UPDATE operators SET removed_at = now(), password_argon2 = '' WHERE operator = %(operator)s;

-- name: people_find_identity
-- The operator of an identity. One that was removed is restored if the provider grants it a role.
UPDATE operators SET removed_at = CASE WHEN %(has_roles)s THEN NULL ELSE removed_at END
WHERE issuer = %(issuer)s AND subject = %(subject)s RETURNING operator, name;

-- name: people_make_identity
-- An operator who signs in at an identity provider; no row if the name is taken.
INSERT INTO operators (name, password_argon2, issuer, subject)
VALUES (%(name)s, '', %(issuer)s, %(subject)s) ON CONFLICT (name) DO NOTHING RETURNING operator;

-- name: people_arenas
-- The numbers of arenas by name, of those that exist.
SELECT arena, name FROM arenas WHERE name = ANY(%(names)s::text[]);

-- name: operator_sessions_list
-- The sessions of an operator that are valid.
SELECT session, created_at, last_seen_at, address, browser FROM operator_sessions
WHERE operator = %(operator)s AND revoked_at IS NULL AND expires_at > now() AND NOT awaits_code
ORDER BY last_seen_at DESC, session DESC;

-- name: operator_sessions_end
-- End one session of an operator.
UPDATE operator_sessions s SET revoked_at = now() FROM operators o
WHERE s.session = %(session)s AND s.operator = %(operator)s AND s.revoked_at IS NULL AND o.operator = s.operator
RETURNING o.name;

-- name: operator_name
-- The name of an operator.
SELECT name FROM operators WHERE operator = %(operator)s;
