-- name: live_votable
-- Whether a battle can be voted on. It stays so until the transaction ends.
-- Besides: whether it talks of who answers, and since when both answers of its last whole turn could be read.
SELECT b.votable, b.void IS NOT NULL, b.identity_talk, coalesce(t.shown_at, b.began_at), t.characters_a, t.characters_b
FROM live_battles b LEFT JOIN LATERAL (
    SELECT t.characters_a, t.characters_b, (
        SELECT max(c.began_at + make_interval(secs => c.first_token_seconds)) FROM live_calls c
        WHERE c.arena = b.arena AND c.matchup = b.matchup AND c.turn = t.turn AND c.state <> 'failed'
    ) AS shown_at
    FROM live_turns t
    WHERE t.arena = b.arena AND t.matchup = b.matchup AND t.characters_a > 0 AND t.characters_b > 0
    ORDER BY t.turn DESC LIMIT 1
) t ON true
WHERE b.arena = %(arena)s AND b.matchup = %(matchup)s FOR SHARE OF b;
