-- Outside of a transaction. The list of arenas: those that everybody may read, by name; and the words of names and titles.
DROP INDEX CONCURRENTLY IF EXISTS arenas_public;
CREATE INDEX CONCURRENTLY arenas_public ON arenas (name)
    WHERE coalesce(settings ->> 'visibility', 'open') = 'open' AND coalesce(settings ->> 'entry', 'open') = 'open'
    AND coalesce(settings ->> 'stage', 'open') NOT IN ('draft', 'deleting', 'deleted');
DROP INDEX CONCURRENTLY IF EXISTS arenas_words;
CREATE INDEX CONCURRENTLY arenas_words ON arenas
    USING gin (to_tsvector('simple'::regconfig, translate(name || ' ' || title, '-_./:@', '      ')));
