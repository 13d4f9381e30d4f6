-- name: roster_models
-- Names of an arena's models, by number.
SELECT name FROM models WHERE arena = %(arena)s ORDER BY model;

-- name: roster_prompts
-- Names of an arena's prompts, by number.
SELECT name FROM prompts WHERE arena = %(arena)s ORDER BY prompt;

-- name: roster_responses
-- The live response of each cell.
SELECT model, prompt, response FROM responses WHERE arena = %(arena)s AND withdrawn_at IS NULL;

-- name: roster_excluded
-- Votes that are excluded now.
SELECT DISTINCT v.source, v.serial
FROM excluded_votes v JOIN exclusions x USING (exclusion)
WHERE v.arena = %(arena)s AND x.restored IS NULL;
