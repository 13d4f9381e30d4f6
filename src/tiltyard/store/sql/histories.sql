-- name: histories_responses
-- Responses of a model, newest first: what kind each is, when it came and went, and when another took its place.
SELECT p.name, p.category, r.kind, r.added_at, r.withdrawn_at,
       CASE WHEN r.withdrawn_at IS NOT NULL
           THEN lead(r.added_at) OVER (PARTITION BY r.prompt ORDER BY r.response) END
FROM responses r JOIN prompts p USING (arena, prompt)
WHERE r.arena = %(arena)s AND r.model = %(model)s
ORDER BY r.added_at DESC, p.prompt, r.response DESC;
