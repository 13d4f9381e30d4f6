-- name: release_matchups
-- The live battles of an arena, from the oldest.
SELECT matchup FROM live_battles WHERE arena = %(arena)s ORDER BY began_at, matchup;

-- name: release_battles
-- Those of these live battles that have ended, with their votes: of voters who agreed to the newest consent if there is
-- one. A vote counts if it is final and not excluded.
SELECT b.matchup, b.void IS NOT NULL,
       coalesce(c.sha256 IS NULL OR EXISTS (
           SELECT FROM consents g WHERE g.arena = b.arena AND g.session = b.session AND g.sha256 = c.sha256
       ), false) AS agreed,
       EXISTS (
           SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
           WHERE v.arena = b.arena AND v.source = m.source AND v.serial = m.serial AND x.restored IS NULL
       ) AS excluded,
       CASE WHEN e.kind = 1 THEN vote_kind(e.outcome, e.both_bad) END,
       b.session, b.began_at, p.name, b.language, m.free_prompt, m.a, m.b, coalesce(e.blind, true), e.position,
       m.propensity
FROM live_battles b
JOIN matchups m ON m.arena = b.arena AND m.matchup = b.matchup
JOIN prompts p ON p.arena = b.arena AND p.prompt = b.category
JOIN raters r ON r.arena = b.arena
LEFT JOIN endings e ON e.arena = m.arena AND e.source = m.source AND e.serial = m.serial AND e.undone IS NULL
LEFT JOIN LATERAL (
    SELECT CASE WHEN t.content <> '' THEN t.sha256 END AS sha256 FROM arena_texts t
    WHERE t.arena = b.arena AND t.name = 'consent' ORDER BY t.version DESC LIMIT 1
) c ON true
WHERE b.arena = %(arena)s AND b.matchup = ANY(%(matchups)s)
    AND (e.position <= r.horizon OR (e.position IS NULL AND m.expires_at <= clock_timestamp()));

-- name: release_turns
-- The turns of these battles.
SELECT matchup, turn, prompt, answer_a, answer_b, state, outcome, flags
FROM live_turns WHERE arena = %(arena)s AND matchup = ANY(%(matchups)s) ORDER BY matchup, turn;

-- name: release_calls
-- What the calls of these battles took: of each side of a turn the last one, and what all of them cost.
SELECT DISTINCT ON (matchup, turn, side) matchup, turn, side, input_tokens, output_tokens, first_token_seconds, seconds,
       sum(cost) OVER (PARTITION BY matchup, turn, side)::bigint,
       count(*) OVER (PARTITION BY matchup, turn, side)
FROM live_calls WHERE arena = %(arena)s AND matchup = ANY(%(matchups)s)
ORDER BY matchup, turn, side, call DESC;

-- name: release_models
-- Names and versions of the entrants, by model.
SELECT n.model, n.name, coalesce(e.version, '') FROM models n
LEFT JOIN live_entrants e ON e.arena = n.arena AND e.model = n.model
WHERE n.arena = %(arena)s;
