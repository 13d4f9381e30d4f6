-- name: voter_origins
-- Where these sessions came from, as far as it is known.
SELECT session, network, language FROM sessions
WHERE session = ANY(%(sessions)s) AND (network IS NOT NULL OR language IS NOT NULL);

-- name: crowd_watches_find
-- What the watch of an arena's crowd remembered.
SELECT generation, position, version, state FROM crowd_watches WHERE arena = %(arena)s;

-- name: crowd_watches_put
-- Remember it anew.
INSERT INTO crowd_watches (arena, generation, position, version, state)
VALUES (%(arena)s, %(generation)s, %(position)s, %(version)s, %(state)s)
ON CONFLICT (arena) DO UPDATE SET generation = excluded.generation, position = excluded.position,
    version = excluded.version, state = excluded.state, made_at = now();
