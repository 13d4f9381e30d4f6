-- name: texts_newest
-- The newest version of each text of an arena.
SELECT DISTINCT ON (name) name, content, sha256, made_at FROM arena_texts
WHERE arena = %(arena)s ORDER BY name, version DESC;

-- name: texts_add
-- A new version of a text.
INSERT INTO arena_texts (arena, name, content, sha256, made_by)
VALUES (%(arena)s, %(name)s, %(content)s, %(sha256)s, %(actor)s);

-- name: texts_consent_wanted
-- The hash of the consent that a session has not given yet; no row comes back if there is nothing to ask.
SELECT t.sha256 FROM (
    SELECT sha256, content FROM arena_texts
    WHERE arena = %(arena)s AND name = 'consent' ORDER BY version DESC LIMIT 1
) t
WHERE t.content <> '' AND NOT EXISTS (
    SELECT FROM consents c WHERE c.arena = %(arena)s AND c.session = %(session)s AND c.sha256 = t.sha256
);

-- name: texts_give_consent
-- A session agrees to a version of the consent.
INSERT INTO consents (arena, session, sha256) VALUES (%(arena)s, %(session)s, %(sha256)s)
ON CONFLICT DO NOTHING;
