-- name: browse_window
-- The last of so many prompts after a number.
SELECT max(prompt) FROM (
    SELECT prompt FROM prompts WHERE arena = %(arena)s AND prompt > %(after)s ORDER BY prompt LIMIT %(scanned)s
) looked_at;

-- name: browse_prompts
-- Prompts of a range that match, with their live and hidden responses and open complaints.
SELECT p.prompt, p.name, p.text, p.category, p.language, p.withdrawn_at,
       (SELECT count(*) FROM responses r
        WHERE r.arena = p.arena AND r.prompt = p.prompt AND r.withdrawn_at IS NULL),
       (SELECT count(*) FROM responses r
        WHERE r.arena = p.arena AND r.prompt = p.prompt AND r.hidden_at IS NOT NULL),
       coalesce(f.complaints, 0)
FROM prompts p
LEFT JOIN (
    SELECT m.prompt, count(*) AS complaints
    FROM complaints c JOIN matchups m USING (arena, source, serial)
    WHERE c.arena = %(arena)s AND m.arena = %(arena)s AND c.settled_at IS NULL GROUP BY m.prompt
) f ON f.prompt = p.prompt
WHERE p.arena = %(arena)s AND p.prompt > %(after)s AND p.prompt <= %(upto)s
    AND (%(category)s::text IS NULL OR p.category = %(category)s)
    AND (NOT %(flagged)s::boolean OR f.complaints > 0)
    AND (NOT %(hidden)s::boolean OR EXISTS (
        SELECT FROM responses r WHERE r.arena = p.arena AND r.prompt = p.prompt AND r.hidden_at IS NOT NULL
    ))
    AND (%(model)s::integer IS NULL OR EXISTS (
        SELECT FROM responses r
        WHERE r.arena = p.arena AND r.prompt = p.prompt AND r.model = %(model)s
            AND (r.withdrawn_at IS NULL OR r.hidden_at IS NOT NULL)
    ))
    AND (
        %(needle)s::text IS NULL
        OR strpos(lower(p.name), lower(%(needle)s::text)) > 0
        OR strpos(lower(p.text), lower(%(needle)s::text)) > 0
        -- Escaped, as a response may have any bytes: of other letters than a to z the case counts.
        OR EXISTS (
            SELECT FROM responses r JOIN contents c USING (sha256)
            WHERE r.arena = p.arena AND r.prompt = p.prompt AND r.kind = 'text'
                AND (r.withdrawn_at IS NULL OR r.hidden_at IS NOT NULL)
                AND (%(model)s::integer IS NULL OR r.model = %(model)s)
                AND strpos(
                    lower(encode(c.bytes, 'escape')),
                    lower(encode(convert_to(%(needle)s::text, 'UTF8'), 'escape'))
                ) > 0
        )
    )
ORDER BY p.prompt LIMIT %(limit)s;

-- name: browse_words
-- The first words of prompts, by name; a withdrawn one, or one without words, has its name.
SELECT name, coalesce(nullif(CASE WHEN length(words) > 80 THEN left(words, 79) || '…' ELSE words END, ''), name)
FROM (
    SELECT name, btrim(regexp_replace(left(text, 400), '[[:space:]]+', ' ', 'g')) AS words
    FROM prompts WHERE arena = %(arena)s AND name = ANY(%(names)s)
) n;

-- name: browse_responses
-- Models that have a live or a hidden response to a prompt, and which of both it is.
SELECT m.name, bool_and(r.withdrawn_at IS NOT NULL)
FROM responses r JOIN models m ON m.arena = r.arena AND m.model = r.model
WHERE r.arena = %(arena)s AND r.prompt = %(prompt)s AND (r.withdrawn_at IS NULL OR r.hidden_at IS NOT NULL)
GROUP BY m.model, m.name ORDER BY m.model LIMIT %(limit)s;
