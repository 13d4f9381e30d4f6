-- name: arena_lists_page
-- A page of arenas by name, each with the summary of its newest board of people, or the board if it has none. First those
-- that everybody may read, of which there is an index; then those that somebody may read for another reason.
WITH listed AS (
    (SELECT arena FROM arenas
    WHERE coalesce(settings ->> 'visibility', 'open') = 'open' AND coalesce(settings ->> 'entry', 'open') = 'open'
        AND coalesce(settings ->> 'stage', 'open') NOT IN ('draft', 'deleting', 'deleted')
        AND name > %(after)s
        AND (%(words)s::text IS NULL OR to_tsvector('simple'::regconfig, translate(name || ' ' || title, '-_./:@', '      '))
             @@ to_tsquery('simple'::regconfig, %(words)s))
        AND (%(archived)s OR coalesce(settings ->> 'stage', 'open') IN ('open', 'paused'))
    ORDER BY name LIMIT %(limit)s)
    UNION
    (SELECT arena FROM arenas
    WHERE %(known)s AND settings ->> 'stage' IS DISTINCT FROM 'deleted'
        AND (%(everything)s OR name = ANY(%(names)s::text[]) OR arena = ANY(%(arenas)s::integer[])
             OR %(signed_in)s AND settings ->> 'entry' = 'sign-in')
        AND name > %(after)s
        AND (%(words)s::text IS NULL OR to_tsvector('simple'::regconfig, translate(name || ' ' || title, '-_./:@', '      '))
             @@ to_tsquery('simple'::regconfig, %(words)s))
        AND (%(archived)s OR coalesce(settings ->> 'stage', 'open') IN ('open', 'paused'))
    ORDER BY name LIMIT %(limit)s)
)
SELECT a.arena, a.name, a.title, a.settings, a.created_at, newest.summary, newest.document
FROM arenas a
LEFT JOIN LATERAL (
    SELECT s.summary, CASE WHEN s.summary IS NULL THEN s.document END AS document
    FROM snapshots s WHERE s.arena = a.arena AND s.source = 0
    ORDER BY s.generation DESC, s.position DESC LIMIT 1
) newest ON true
WHERE a.arena IN (SELECT arena FROM listed)
ORDER BY a.name LIMIT %(limit)s;

-- name: arena_lists_public
-- The arenas that everybody may read and that have a board of people.
SELECT arena FROM arenas a
WHERE coalesce(settings ->> 'visibility', 'open') = 'open' AND coalesce(settings ->> 'entry', 'open') = 'open'
    AND coalesce(settings ->> 'stage', 'open') NOT IN ('draft', 'deleting', 'deleted')
    AND EXISTS (SELECT FROM snapshots s WHERE s.arena = a.arena AND s.source = 0);

-- name: arena_lists_states
-- Of each of these arenas: whether everybody may read it, how often votes were excluded or restored, and a hash of all
-- that pages of its boards are made of.
SELECT a.arena, a.name,
       coalesce(settings ->> 'visibility', 'open') = 'open' AND coalesce(settings ->> 'entry', 'open') = 'open'
    AND coalesce(settings ->> 'stage', 'open') NOT IN ('draft', 'deleting', 'deleted'),
       coalesce(people.generation, 0),
       md5(concat_ws(' ', a.title, a.settings, people.generation, people.position, judges.generation, judges.position,
                     (SELECT string_agg(md5(d::text), '' ORDER BY d.model) FROM model_details d WHERE d.arena = a.arena)))
FROM arenas a
LEFT JOIN LATERAL (
    SELECT generation, position FROM snapshots WHERE arena = a.arena AND source = 0
    ORDER BY generation DESC, position DESC LIMIT 1
) people ON true
LEFT JOIN LATERAL (
    SELECT generation, position FROM snapshots WHERE arena = a.arena AND source = 1
    ORDER BY generation DESC, position DESC LIMIT 1
) judges ON true
WHERE a.arena = ANY(%(arenas)s);
