-- name: retention_delete
-- Delete texts that are older than their arena keeps them; a turn that still runs is left alone.
UPDATE live_turns t SET prompt = NULL, answer_a = NULL, answer_b = NULL, thinking_a = NULL, thinking_b = NULL
FROM arenas a
WHERE a.arena = t.arena AND t.prompt IS NOT NULL AND t.ended_at IS NOT NULL
    AND a.settings ->> 'live_retention_days' IS NOT NULL
    AND t.began_at < %(moment)s::timestamptz - make_interval(days => (a.settings ->> 'live_retention_days')::integer)
RETURNING t.arena;

-- name: retention_forget
-- Delete the hashes of prompts that no turn has the text of any more; those of battles without a turn are kept.
UPDATE live_prompts p SET sha256 = NULL
WHERE p.arena = %(arena)s AND p.sha256 IS NOT NULL AND EXISTS (
    SELECT FROM live_battles b JOIN live_turns t USING (arena, matchup)
    WHERE b.arena = p.arena AND b.free_prompt = p.number AND t.turn = 1
) AND NOT EXISTS (
    SELECT FROM live_battles b LEFT JOIN live_turns t ON t.arena = b.arena AND t.matchup = b.matchup AND t.turn = 1
    WHERE b.arena = p.arena AND b.free_prompt = p.number AND (t.matchup IS NULL OR t.prompt IS NOT NULL)
);

-- name: retention_remarks
-- Delete remarks that are older than their arena keeps them.
DELETE FROM remarks r USING arenas a
WHERE a.arena = r.arena AND a.settings ->> 'remark_retention_days' IS NOT NULL
    AND r.made_at < %(moment)s::timestamptz - make_interval(days => (a.settings ->> 'remark_retention_days')::integer);

-- name: retention_notes
-- Delete the words of reports that are older than that.
UPDATE complaints c SET note = NULL FROM arenas a
WHERE a.arena = c.arena AND c.note IS NOT NULL AND a.settings ->> 'remark_retention_days' IS NOT NULL
    AND c.made_at < %(moment)s::timestamptz - make_interval(days => (a.settings ->> 'remark_retention_days')::integer);

-- name: retention_payers
-- Delete the accounts of battles of earlier days.
UPDATE live_battles SET payers = '{}' WHERE payers <> '{}' AND began_at < %(before)s::date;

-- name: retention_networks
-- Delete where sessions came from.
UPDATE sessions SET network = NULL WHERE network IS NOT NULL AND created_at < %(until)s::timestamptz;

-- name: retention_spending
-- Delete what sessions and accounts spent on earlier days; the sums of all stay.
DELETE FROM live_spending WHERE session <> 0 AND day < %(before)s::date;
