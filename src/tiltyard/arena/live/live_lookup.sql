-- name: live_categories
-- What a prompt can be about: the prompts of a live arena's roster.
SELECT name FROM prompts WHERE arena = %(arena)s AND withdrawn_at IS NULL ORDER BY prompt;

-- name: live_answer_figures
-- By side: the mean time to the first token, the time of all answers, and what they cost, if that is known of all calls.
SELECT side, avg(first_token_seconds), sum(seconds), CASE WHEN count(*) = count(cost) THEN sum(cost) END
FROM live_calls WHERE arena = %(arena)s AND matchup = %(matchup)s
GROUP BY side;
