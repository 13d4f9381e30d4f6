-- name: people_find
-- The number of a person by any of the hashes that the keys give.
SELECT person FROM people WHERE identity_hmac = ANY(%(hashes)s) ORDER BY person FOR UPDATE LIMIT 1;

-- name: people_add
-- A person who signs in for the first time, or at the same time elsewhere. Two of the same number are an error.
INSERT INTO people (identity_hmac, session, name, groups)
VALUES (%(hash)s, %(session)s, %(name)s, %(groups)s)
ON CONFLICT (identity_hmac) DO UPDATE SET name = excluded.name, groups = excluded.groups, signed_in_at = now()
RETURNING person, session, name, groups;

-- name: people_renew
-- What is known of a person now. The hash is that of the newest key.
UPDATE people SET identity_hmac = %(hash)s, name = %(name)s, groups = %(groups)s, signed_in_at = now()
WHERE person = %(person)s RETURNING person, session, name, groups;

-- name: people_revoked
-- Whether the number of a person was revoked. A person cannot get another one.
SELECT EXISTS (SELECT FROM sessions WHERE session = %(session)s AND revoked_at IS NOT NULL);

-- name: people_sign_in
-- A browser that is signed in; no row if another has used the attempt.
INSERT INTO person_sign_ins (token_sha256, person, state_sha256, expires_at)
VALUES (%(token)s, %(person)s, %(state)s, now() + %(life)s::interval)
ON CONFLICT (state_sha256) DO NOTHING RETURNING person;

-- name: people_forget_sign_ins
-- Delete a person's sign-ins that have expired. An attempt cannot be repeated after an hour.
DELETE FROM person_sign_ins WHERE person = %(person)s AND expires_at < now() - interval '1 hour';

-- name: people_signed_in
-- The person who is signed in with this token.
SELECT p.person, p.session, p.name, p.groups,
    EXISTS (SELECT FROM sessions s WHERE s.session = p.session AND s.revoked_at IS NOT NULL)
FROM person_sign_ins i JOIN people p USING (person)
WHERE i.token_sha256 = %(token)s AND i.ended_at IS NULL AND i.expires_at > now();

-- name: people_sign_out
-- Sign out.
UPDATE person_sign_ins SET ended_at = now() WHERE token_sha256 = %(token)s AND ended_at IS NULL;
