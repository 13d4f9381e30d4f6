-- name: imports_responses
-- The newest response in each cell of model and prompt, withdrawn ones as well.
SELECT DISTINCT ON (model, prompt) model, prompt, response FROM responses
WHERE arena = %(arena)s ORDER BY model, prompt, response DESC;

-- name: imports_list
-- The files of past votes whose votes an arena has: hashes, name, votes of the file and those in the log, when it began.
SELECT file_sha256, votes_sha256, min(name), max(total), sum(votes)::bigint, min(made_at)
FROM vote_imports WHERE arena = %(arena)s
GROUP BY file_sha256, votes_sha256 ORDER BY min(position);

-- name: imports_repeated
-- How many of these votes equal an imported vote of the log: in voter, prompt, models, outcome and time.
SELECT count(*) FROM (
    SELECT * FROM unnest(%(sessions)s::bigint[], %(prompts)s::integer[], %(models_a)s::integer[], %(models_b)s::integer[], %(outcomes)s::smallint[], %(times)s::bigint[])
    WHERE EXISTS (SELECT FROM vote_imports WHERE arena = %(arena)s)
    INTERSECT ALL
    SELECT session, prompt, a, b, outcome, coalesce((extract(epoch FROM (detail ->> 'cast_at')::timestamptz) * 1000000)::bigint, %(no_time)s)
    FROM events WHERE arena = %(arena)s AND kind = 1 AND mark = 4
) AS repeated;

-- name: imports_add
-- A batch of a file entered the log.
INSERT INTO vote_imports (arena, position, votes, file_sha256, votes_sha256, name, total)
VALUES (%(arena)s, %(position)s, %(votes)s, %(file_sha256)s, %(votes_sha256)s, %(name)s, %(total)s);
