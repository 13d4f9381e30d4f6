-- name: checklist_counts
-- What an arena has before it opens: prompts, enabled models, prompts that two models answered, invitations that let in.
SELECT
    (SELECT count(*) FROM prompts WHERE arena = %(arena)s AND withdrawn_at IS NULL),
    (SELECT count(*) FROM (
        SELECT DISTINCT ON (a) kind FROM events
        WHERE arena = %(arena)s AND kind IN (4, 5) ORDER BY a, position DESC
    ) last WHERE kind = 4),
    (SELECT count(*) FROM (
        SELECT FROM responses WHERE arena = %(arena)s AND withdrawn_at IS NULL GROUP BY prompt HAVING count(*) > 1
    ) shared),
    (SELECT count(*) FROM invitations
     WHERE arena = %(arena)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
        AND (uses_allowed IS NULL OR uses < uses_allowed));

-- name: checklist_pair
-- The first prompt from a number on that two models have answered, with its responses.
SELECT p.prompt, p.name, p.text, p.language, m.name, r.response, r.kind
FROM (
    SELECT r.prompt FROM responses r JOIN prompts q USING (arena, prompt)
    WHERE r.arena = %(arena)s AND r.prompt >= %(prompt)s AND r.withdrawn_at IS NULL AND q.withdrawn_at IS NULL
    GROUP BY r.prompt HAVING count(*) > 1 ORDER BY r.prompt LIMIT 1
) first
JOIN prompts p ON p.arena = %(arena)s AND p.prompt = first.prompt
JOIN responses r ON r.arena = %(arena)s AND r.prompt = first.prompt AND r.withdrawn_at IS NULL
JOIN models m ON m.arena = %(arena)s AND m.model = r.model
ORDER BY r.model LIMIT %(limit)s;
