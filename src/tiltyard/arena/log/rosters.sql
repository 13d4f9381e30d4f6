-- name: roster_models
-- Names of an arena's models, by number.
SELECT name FROM models WHERE arena = %(arena)s ORDER BY model;

-- name: roster_prompts
-- Names of an arena's prompts, by number.
SELECT name FROM prompts WHERE arena = %(arena)s ORDER BY prompt;

-- name: roster_responses
-- The live response of each cell.
SELECT model, prompt, response FROM responses WHERE arena = %(arena)s AND withdrawn_at IS NULL;

-- name: roster_answered
-- Which models had a live response to which of these prompts at a time.
SELECT DISTINCT model, prompt FROM responses
WHERE arena = %(arena)s AND prompt = ANY(%(prompts)s) AND added_at <= %(at)s
    AND (withdrawn_at IS NULL OR withdrawn_at > %(at)s);

-- name: roster_judgeable
-- Numbers of the prompts that a voter can judge, who named languages and categories. Those of unknown ones are included.
SELECT prompt FROM prompts
WHERE arena = %(arena)s
    AND (cardinality(%(languages)s::text[]) = 0 OR language IS NULL OR language = ANY(%(languages)s))
    AND (cardinality(%(categories)s::text[]) = 0 OR category IS NULL OR category = ANY(%(categories)s));

-- name: roster_excluded
-- Votes that are excluded now.
SELECT DISTINCT v.source, v.serial
FROM excluded_votes v JOIN exclusions x USING (exclusion)
WHERE v.arena = %(arena)s AND x.restored IS NULL;
