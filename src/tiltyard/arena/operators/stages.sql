-- name: stages_open_matchups
-- Every matchup that waits for its vote.
SELECT m.source, m.serial, m.session, m.ballot, m.unseen FROM matchups m
WHERE m.arena = %(arena)s AND m.expires_at > %(now)s
    AND NOT EXISTS (
        SELECT FROM endings e
        WHERE e.arena = m.arena AND e.source = m.source AND e.serial = m.serial AND e.undone IS NULL
    )
ORDER BY m.source, m.serial;

-- name: stages_test_votes
-- How many votes were cast that are not excluded for good.
SELECT count(*) FROM endings d
WHERE d.arena = %(arena)s AND d.kind = 1 AND d.undone IS NULL
    AND NOT EXISTS (
        SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
        WHERE v.arena = d.arena AND v.source = d.source AND v.serial = d.serial AND x.final
    );

-- name: stages_finalise_exclusion
-- An exclusion that cannot be restored.
UPDATE exclusions SET final = true WHERE exclusion = %(exclusion)s;

-- name: stages_drop_draft
-- An exclusion that turned out to have no votes.
DELETE FROM exclusions WHERE exclusion = %(exclusion)s;

-- name: stages_ask_deletion
-- An arena is going to be deleted.
INSERT INTO arena_deletions (arena, restored_stage, asked_by, due_at)
VALUES (%(arena)s, %(stage)s, %(actor)s, now() + %(grace)s)
RETURNING due_at;

-- name: stages_keep
-- An arena is not going to be deleted after all; which stage it returns to.
DELETE FROM arena_deletions WHERE arena = %(arena)s AND done_at IS NULL RETURNING restored_stage;

-- name: stages_deletions
-- When each arena is going to be deleted.
SELECT arena, due_at FROM arena_deletions WHERE done_at IS NULL;

-- name: stages_due_deletions
-- Arenas whose time has come.
SELECT a.name FROM arena_deletions d JOIN arenas a USING (arena)
WHERE d.done_at IS NULL AND d.due_at <= %(now)s ORDER BY d.due_at, d.arena;

-- name: stages_clear_entrants
-- Delete what a deleted live arena says about its entrants: addresses and system prompts.
UPDATE live_entrants SET config = '{}' WHERE arena = %(arena)s;

-- name: stages_deletion_done
-- An arena was deleted.
UPDATE arena_deletions SET done_at = now() WHERE arena = %(arena)s;

-- name: stages_revoke_invitations
-- Nobody is invited to a deleted arena, and it knows nobody's name.
UPDATE invitations SET revoked_at = coalesce(revoked_at, now()), name = NULL WHERE arena = %(arena)s;

-- name: stages_clear_texts
-- What an operator told the voters of a deleted arena; the hashes stay.
UPDATE arena_texts SET content = '' WHERE arena = %(arena)s;

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
