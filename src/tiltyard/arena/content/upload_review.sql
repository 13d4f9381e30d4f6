-- name: uploads_add
-- A file that waits to be looked over.
INSERT INTO uploads (upload, arena, actor, name, bytes)
VALUES (%(upload)s, %(arena)s, %(actor)s, %(name)s, %(bytes)s);

-- name: uploads_find
-- A file, for the actor who uploaded it to this arena, until it expires.
SELECT name, bytes, made_at FROM uploads
WHERE upload = %(upload)s AND arena = %(arena)s AND actor = %(actor)s AND made_at > now() - %(life)s::interval;

-- name: uploads_list
-- The files of an actor in an arena, newest first.
SELECT upload, name, octet_length(bytes), made_at FROM uploads
WHERE arena = %(arena)s AND actor = %(actor)s AND made_at > now() - %(life)s::interval ORDER BY made_at DESC, upload;

-- name: uploads_remove
-- One file goes.
DELETE FROM uploads WHERE upload = %(upload)s;

-- name: uploads_forget
-- Files that have had their hour go.
DELETE FROM uploads WHERE made_at <= now() - %(life)s::interval;

-- name: uploads_trim
-- Keep only the newest files of an actor in an arena.
DELETE FROM uploads WHERE upload IN (
    SELECT upload FROM uploads WHERE arena = %(arena)s AND actor = %(actor)s
    ORDER BY made_at DESC, upload OFFSET %(kept)s
);
