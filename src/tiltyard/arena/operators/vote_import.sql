-- name: imports_responses
-- The newest response in each cell of model and prompt, withdrawn ones as well.
SELECT DISTINCT ON (model, prompt) model, prompt, response FROM responses
WHERE arena = %(arena)s ORDER BY model, prompt, response DESC;

-- name: imports_list
-- The files of past votes whose votes an arena has: hashes, name, votes of the file and those in the log, when it began.
SELECT file_sha256, votes_sha256, min(name), max(total), sum(votes)::bigint, min(made_at)
FROM vote_imports WHERE arena = %(arena)s
GROUP BY file_sha256, votes_sha256 ORDER BY min(position);

-- name: imports_add
-- A batch of a file entered the log.
INSERT INTO vote_imports (arena, position, votes, file_sha256, votes_sha256, name, total)
VALUES (%(arena)s, %(position)s, %(votes)s, %(file_sha256)s, %(votes_sha256)s, %(name)s, %(total)s);
