-- name: histories_responses
-- Responses of a model, newest first: what kind each is, when it came and went, and when another took its place.
-- The kind of a current response is hidden if other models have other kinds: a voter could tell the models apart.
WITH mixed AS (
    SELECT prompt FROM responses WHERE arena = %(arena)s AND withdrawn_at IS NULL
    GROUP BY prompt HAVING min(kind) <> max(kind)
)
SELECT p.name, p.category,
       CASE WHEN r.withdrawn_at IS NOT NULL OR r.prompt NOT IN (SELECT prompt FROM mixed) THEN r.kind END,
       r.added_at, r.withdrawn_at,
       CASE WHEN r.withdrawn_at IS NOT NULL
           THEN lead(r.added_at) OVER (PARTITION BY r.prompt ORDER BY r.response) END
FROM responses r JOIN prompts p USING (arena, prompt)
WHERE r.arena = %(arena)s AND r.model = %(model)s
ORDER BY r.added_at DESC, p.prompt, r.response DESC;
