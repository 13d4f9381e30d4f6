-- name: arenas_reserve
-- The number of an arena that is going to be made.
SELECT nextval(pg_get_serial_sequence('arenas', 'arena'));

-- name: arenas_add
-- A new arena, as public as the installation is; no row comes back if the name is taken.
INSERT INTO arenas (arena, name, title, settings, bucket) OVERRIDING SYSTEM VALUE
VALUES (
    %(arena)s, %(name)s, %(title)s,
    %(settings)s || jsonb_build_object('public_address', EXISTS (SELECT FROM installation WHERE public)), %(bucket)s
)
ON CONFLICT (name) DO NOTHING
RETURNING arena, name, title, settings, created_at;

-- name: arenas_add_rater
-- Where its rater starts.
INSERT INTO raters (arena) VALUES (%(arena)s);

-- name: arenas_find
-- One arena by name.
SELECT arena, name, title, settings, created_at FROM arenas
WHERE name = %(name)s AND settings ->> 'stage' IS DISTINCT FROM 'deleted';

-- name: arenas_lock
-- The same, whose title and settings nobody else changes until this transaction ends.
SELECT arena, name, title, settings, created_at FROM arenas
WHERE name = %(name)s AND settings ->> 'stage' IS DISTINCT FROM 'deleted' FOR NO KEY UPDATE;

-- name: arenas_find_by_number
-- One arena by number.
SELECT arena, name, title, settings, created_at FROM arenas WHERE arena = %(arena)s;

-- name: arenas_find_by_numbers
-- The arenas with these numbers.
SELECT arena, name, title, settings, created_at FROM arenas WHERE arena = ANY(%(arenas)s);

-- name: arenas_prompt_language
-- The language of a prompt.
SELECT language FROM prompts WHERE arena = %(arena)s AND prompt = %(prompt)s;

-- name: arenas_list
-- Every arena that is not deleted, by name.
SELECT arena, name, title, settings, created_at FROM arenas
WHERE settings ->> 'stage' IS DISTINCT FROM 'deleted' ORDER BY name;

-- name: arenas_change
-- Another title or other settings.
UPDATE arenas SET title = %(title)s, settings = %(settings)s WHERE arena = %(arena)s;

-- name: arenas_models
-- Models by number, with how many live responses each has, and whether it may be served.
SELECT m.model, m.name, m.added_at, coalesce(r.responses, 0), coalesce(s.kind = 4, false)
FROM models m
LEFT JOIN (
    SELECT model, count(*) AS responses FROM responses
    WHERE arena = %(arena)s AND withdrawn_at IS NULL GROUP BY model
) r USING (model)
LEFT JOIN (
    SELECT DISTINCT ON (a) a AS model, kind FROM events
    WHERE arena = %(arena)s AND kind IN (4, 5) ORDER BY a, position DESC
) s USING (model)
WHERE m.arena = %(arena)s
ORDER BY m.model;

-- name: arenas_prompts
-- Prompts by number, a page of them, with how many live responses each has.
SELECT p.prompt, p.name, p.text, p.category, p.language,
       (SELECT count(*) FROM responses r
        WHERE r.arena = p.arena AND r.prompt = p.prompt AND r.withdrawn_at IS NULL),
       p.added_at, p.withdrawn_at
FROM prompts p
WHERE p.arena = %(arena)s AND p.prompt > %(after)s
ORDER BY p.prompt LIMIT %(limit)s;

-- name: arenas_prompt
-- One prompt by number.
SELECT text FROM prompts WHERE arena = %(arena)s AND prompt = %(prompt)s AND withdrawn_at IS NULL;

-- name: arenas_prompt_keys
-- Keys of prompts, all or those with these names, for an import.
SELECT prompt, name, sha256, category, language, withdrawn_at IS NOT NULL FROM prompts
WHERE arena = %(arena)s AND (%(names)s::text[] IS NULL OR name = ANY(%(names)s)) ORDER BY prompt;

-- name: arenas_size
-- How many models and prompts were ever added.
SELECT (SELECT coalesce(max(model) + 1, 0) FROM models WHERE arena = %(arena)s),
       (SELECT coalesce(max(prompt) + 1, 0) FROM prompts WHERE arena = %(arena)s);

-- name: arenas_model_numbers
-- Numbers of the models of these names.
SELECT name, model FROM models WHERE arena = %(arena)s AND name = ANY(%(names)s);

-- name: arenas_response_keys
-- The hash of the live response in each of these cells that has one.
SELECT r.model, r.prompt, r.sha256
FROM unnest(%(model)s::integer[], %(prompt)s::integer[]) AS c (model, prompt)
JOIN responses r ON r.arena = %(arena)s AND r.model = c.model AND r.prompt = c.prompt
WHERE r.withdrawn_at IS NULL;

-- name: arenas_filtered_prompts
-- Numbers and names of the prompts of a category and a language.
SELECT prompt, name FROM prompts
WHERE arena = %(arena)s AND (%(category)s::text IS NULL OR category = %(category)s)
    AND (%(language)s::text IS NULL OR language = %(language)s)
ORDER BY prompt;

-- name: arenas_filters
-- Which categories and languages there are; a live arena has the languages of its battles.
SELECT array(SELECT DISTINCT category FROM prompts WHERE arena = %(arena)s AND category IS NOT NULL ORDER BY 1),
       array(SELECT language FROM prompts WHERE arena = %(arena)s AND language IS NOT NULL
             UNION SELECT language FROM live_battles WHERE arena = %(arena)s AND language <> 'unknown' ORDER BY 1);

-- name: arenas_add_models
-- New models by number.
INSERT INTO models (arena, model, name)
SELECT %(arena)s, * FROM unnest(%(model)s::integer[], %(name)s::text[]);

-- name: arenas_add_prompts
-- New prompts by number.
INSERT INTO prompts (arena, prompt, name, text, sha256, category, language)
SELECT %(arena)s, *
FROM unnest(%(prompt)s::integer[], %(name)s::text[], %(text)s::text[], %(sha256)s::bytea[],
            %(category)s::text[], %(language)s::text[]);

-- name: arenas_describe_prompts
-- Category and language of prompts that had none.
UPDATE prompts p SET category = coalesce(p.category, n.category), language = coalesce(p.language, n.language)
FROM unnest(%(prompt)s::integer[], %(category)s::text[], %(language)s::text[]) AS n (prompt, category, language)
WHERE p.arena = %(arena)s AND p.prompt = n.prompt;

-- name: arenas_add_responses
-- New responses; their numbers in the order in which they were given.
INSERT INTO responses (arena, model, prompt, kind, media_type, sha256, size)
SELECT %(arena)s, model, prompt, kind, media_type, sha256, size
FROM unnest(%(model)s::integer[], %(prompt)s::integer[], %(kind)s::text[], %(media_type)s::text[],
            %(sha256)s::bytea[], %(size)s::bigint[])
    WITH ORDINALITY AS n (model, prompt, kind, media_type, sha256, size, place)
ORDER BY place
RETURNING response, model, prompt;

-- name: arenas_model
-- One model by name, and what was last said of it: 4 enabled, 5 retired.
SELECT m.model, (SELECT e.kind FROM events e WHERE e.arena = %(arena)s AND e.kind IN (4, 5) AND e.a = m.model
                 ORDER BY e.position DESC LIMIT 1)
FROM models m WHERE m.arena = %(arena)s AND m.name = %(name)s;

-- name: arenas_prompt_named
-- One prompt by name.
SELECT prompt, withdrawn_at FROM prompts WHERE arena = %(arena)s AND name = %(name)s;

-- name: arenas_policy
-- The last policy of a log.
SELECT detail FROM events WHERE arena = %(arena)s AND kind = 12 ORDER BY position DESC LIMIT 1;

-- name: arenas_response
-- A response of a model to a prompt that an operator can read: the live one, or else the last hidden one.
SELECT response FROM responses
WHERE arena = %(arena)s AND model = %(model)s AND prompt = %(prompt)s
    AND (withdrawn_at IS NULL OR hidden_at IS NOT NULL)
ORDER BY withdrawn_at IS NULL DESC, response DESC LIMIT 1;
